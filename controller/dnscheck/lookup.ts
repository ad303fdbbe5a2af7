import { Resolver } from "node:dns/promises";
import { isWildcard } from "#hostmap/wildcards.ts";

/**
 * Returns at most `MAX_ADDRESSES` IP literals. Empty: the name does not exist, or has no address of that family.
 */
export type DnsLookup = (name: string, family: 4 | 6) => Promise<readonly string[]>;

/** Timeout of the first try. c-ares doubles it for the second one (src/lib/ares_process.c), so a look-up takes 2 s. */
const TIMEOUT_MS = 667;
const TRIES = 2;
/**
 * Maximum number of addresses that are read of an answer. A TCP message has room for 4,000. Servers rotate them, so the
 * first ones in the order of their texts count: the same ones each time.
 */
export const MAX_ADDRESSES = 16;

/**
 * Resolves with the cluster's DNS, like a pod but without a hosts file. If `servers` is empty, uses the servers of
 * this pod. The look-up rejects if there is no response.
 */
export function clusterLookup(servers: readonly string[]): DnsLookup {
  const resolver = new Resolver({ timeout: TIMEOUT_MS, tries: TRIES });
  if (servers.length > 0) resolver.setServers(servers);
  return async (name, family) => {
    try {
      const all = family === 4 ? await resolver.resolve4(name) : await resolver.resolve6(name);
      return all.sort().slice(0, MAX_ADDRESSES);
    } catch (error) {
      const { code } = error as { code?: string };
      if (code === "ENOTFOUND" || code === "ENODATA") return [];
      throw error;
    }
  };
}

/** The name to look up. For a wildcard, a name below it that probably has no separate record. */
export function askedFor(name: string): string {
  return isWildcard(name) ? name.replace("*", "switchback-dns-check") : name;
}

/**
 * The Services of tools with the same purpose, as `name.namespace`. These tools make the cluster's DNS answer with
 * their ClusterIPs, and docs/migrating.md runs them beside us. The tools are compumike/hairpin-proxy,
 * dextercrypt/hairpin-proxy-gen2 and ouroboros.
 */
const TOOLS = ["hairpin-proxy.hairpin-proxy", "haproxy-nginx.hairpin-proxy-gen2", "ouroboros-proxy.ouroboros"];
/** A name that each cluster has. */
const OF_CLUSTER = "kubernetes.default";

/**
 * The addresses of other tools, as far as they have answers. Such an address does not show where a name leads without
 * us. Rejects if DNS does not even answer for a name of the cluster itself.
 */
export async function toolAddresses(lookup: DnsLookup, clusterDomain: string | undefined): Promise<Set<string>> {
  const ask = (name: string) =>
    Promise.all(([4, 6] as const).map((family) => lookup(`${name}.svc.${clusterDomain}`, family)));
  if (clusterDomain === undefined) return new Set();
  await ask(OF_CLUSTER);
  const answers = await Promise.allSettled(TOOLS.map(ask));
  return new Set(answers.flatMap((one) => (one.status === "fulfilled" ? one.value.flat() : [])));
}
