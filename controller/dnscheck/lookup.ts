import { Resolver } from "node:dns/promises";
import { isWildcard } from "#hostmap/wildcards.ts";

/** The answer of DNS for a name. */
export interface DnsAnswer {
  /** At most 64 IP literals; empty if the name does not exist, or has no address of that family. */
  readonly addresses: readonly string[];
  /** The number of addresses that were left out. */
  readonly omitted?: number;
  /** TTL, seconds. */
  readonly ttl: number;
}

export type DnsLookup = (name: string, family: 4 | 6) => Promise<DnsAnswer>;

/** Timeout per server, and number of tries. */
const TIMEOUT_MS = 2_000;
const TRIES = 2;
/**
 * Maximum number of addresses that are read of an answer. A TCP message has room for 4,000. Servers rotate them, so the
 * first ones in the order of their texts count: the same ones each time.
 */
const MAX_ADDRESSES = 64;
/**
 * TTL of a negative answer, in seconds. It is short because the records of a new name appear later than its Ingress.
 */
const NEGATIVE_TTL = 60;

/**
 * Resolves with the cluster's DNS, like a pod but without a hosts file. If `servers` is empty, uses the servers of
 * this pod. The look-up rejects if there is no response.
 */
export function clusterLookup(servers: readonly string[]): DnsLookup {
  const resolver = new Resolver({ timeout: TIMEOUT_MS, tries: TRIES });
  if (servers.length > 0) resolver.setServers(servers);
  return async (name, family) => {
    try {
      const records =
        family === 4 ? await resolver.resolve4(name, { ttl: true }) : await resolver.resolve6(name, { ttl: true });
      return {
        addresses: records
          .map(({ address }) => address)
          .sort()
          .slice(0, MAX_ADDRESSES),
        omitted: Math.max(0, records.length - MAX_ADDRESSES),
        ttl: Math.min(...records.map(({ ttl }) => ttl)),
      };
    } catch (error) {
      const { code } = error as { code?: string };
      if (code === "ENOTFOUND" || code === "ENODATA") return { addresses: [], ttl: NEGATIVE_TTL };
      throw error;
    }
  };
}

/** The name to look up. For a wildcard, a name below it that probably has no separate record. */
export function askedFor(name: string): string {
  return isWildcard(name) ? name.replace("*", "switchback-dns-check") : name;
}
