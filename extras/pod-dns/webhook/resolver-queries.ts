import { Resolver } from "node:dns/promises";
import { isIPv6 } from "node:net";
import { answersHealth } from "../health-question.ts";

/** DNS queries of the resolver watch. */
export interface ResolverQueries {
  /** The address of a Service. Undefined if it has none. Throws if the cluster's DNS does not answer. */
  readonly addressOf: (service: string) => Promise<string | undefined>;
  /** Whether the resolver at this address answers with the map. */
  readonly isAnswering: (address: string) => Promise<boolean>;
}

/** Two tries, of a second each at most. */
const LOOK_UP = { timeout: 1_000, tries: 2 };
const ABSENT: readonly (string | undefined)[] = ["ENOTFOUND", "ENODATA"];

/** Asks the DNS servers of the cluster (`servers`) for Services, and the resolvers themselves for their health. */
export function resolverQueries(servers: readonly string[]): ResolverQueries {
  return {
    async addressOf(service) {
      const resolver = new Resolver(LOOK_UP);
      resolver.setServers(servers);
      // The first family of the cluster is that of its DNS server.
      const families =
        servers[0] !== undefined && isIPv6(servers[0]) ? (["AAAA", "A"] as const) : (["A", "AAAA"] as const);
      for (const family of families) {
        const [address] = await present(resolver.resolve(service, family));
        if (address !== undefined) return address;
      }
      return undefined;
    },
    isAnswering: answersHealth,
  };
}

async function present(answer: Promise<string[]>): Promise<string[]> {
  try {
    return await answer;
  } catch (error) {
    if (ABSENT.includes((error as NodeJS.ErrnoException).code)) return [];
    throw error;
  }
}
