import { Resolver } from "node:dns/promises";

/** What a DNS server says of a name. Rejects when it does not say anything. */
export interface DnsAnswer {
  /** IP literals; none: the name does not exist, or has no address of that family. */
  readonly addresses: readonly string[];
  /** How long that holds, seconds. */
  readonly ttl: number;
}

export type DnsLookup = (name: string, family: 4 | 6) => Promise<DnsAnswer>;

/** How long one server is waited for, and how often it is asked. */
const TIMEOUT_MS = 2_000;
const TRIES = 2;
/** That there is nothing is believed this long, seconds: the records of a new name come later than its Ingress. */
const NEGATIVE_TTL = 60;

/** Asks the cluster's DNS as a pod would, but past any hosts file. `servers` none: those of this pod. */
export function clusterLookup(servers: readonly string[]): DnsLookup {
  const resolver = new Resolver({ timeout: TIMEOUT_MS, tries: TRIES });
  if (servers.length > 0) resolver.setServers(servers);
  return async (name, family) => {
    try {
      const records =
        family === 4 ? await resolver.resolve4(name, { ttl: true }) : await resolver.resolve6(name, { ttl: true });
      return {
        addresses: records.map(({ address }) => address),
        ttl: Math.min(...records.map(({ ttl }) => ttl)),
      };
    } catch (error) {
      const { code } = error as { code?: string };
      if (code === "ENOTFOUND" || code === "ENODATA") return { addresses: [], ttl: NEGATIVE_TTL };
      throw error;
    }
  };
}
