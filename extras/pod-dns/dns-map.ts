import { shortHash } from "#hostmap/hash.ts";
import { parseHosts } from "#hostmap/hosts-text.ts";
import { LeftOut, type NameProtection } from "#hostmap/protected-names.ts";
import { ANY_DEPTH, isWildcard } from "#hostmap/wildcards.ts";
import type { SnapshotForm } from "#lib/documents/map-builder.ts";
import type { HashedShard } from "#lib/documents/published-map.ts";
import { hostsLines } from "./hosts-file.ts";
import type { Wildcards } from "./wildcard-zone.ts";

/**
 * What the sidecar keeps of a shard: its part of the files. The names that it was made of would take three times the
 * memory.
 */
interface DnsPart extends HashedShard {
  /** Lines of the hosts file. */
  readonly hosts: string;
  readonly wildcards: Wildcards;
  readonly wildcardOrders: ReadonlyMap<string, number>;
  /** Number of names, without wildcards. */
  readonly size: number;
  /** Names that the resolvers do not answer. */
  readonly leftOut: LeftOut;
}

/** The map as the sidecar has it. */
export interface DnsMap {
  readonly revision: string;
  /** Number of names, without wildcards. */
  readonly size: number;
  readonly parts: readonly DnsPart[];
}

/**
 * How the sidecar reads the published map. `protect` rejects names whatever the map has: with a stolen token of the
 * controller, anybody can publish any map.
 */
export function dnsMapForm(protect: NameProtection): SnapshotForm<DnsPart, DnsMap> {
  return {
    parse(text) {
      const orders = new Map<string, number>();
      return partOf(shortHash(text), parseHosts(text, orders), { protect, orders });
    },
    assemble: mapOfParts,
  };
}

function partOf(
  shardHash: string,
  all: ReadonlyMap<string, readonly string[]>,
  { protect, orders }: { readonly protect: NameProtection; readonly orders: ReadonlyMap<string, number> },
): DnsPart {
  const wildcards = new Map<string, readonly string[]>();
  const wildcardOrders = new Map<string, number>();
  const entries = new Map<string, readonly string[]>();
  const leftOut = new LeftOut();
  let size = 0;
  for (const [name, addresses] of all) {
    const reason = protect(name);
    if (reason !== undefined) {
      leftOut.add(reason);
      continue;
    }
    entries.set(name, addresses);
    if (name.startsWith(ANY_DEPTH)) {
      const apex = name.slice(ANY_DEPTH.length);
      wildcards.set(apex, addresses);
      wildcardOrders.set(apex, orders.get(name) ?? 0);
    }
    if (!isWildcard(name)) size += 1;
  }
  return { shardHash, hosts: hostsLines(entries), wildcards, wildcardOrders, size, leftOut };
}

function mapOfParts(revision: string, parts: readonly DnsPart[]): DnsMap {
  return { revision, size: parts.reduce((sum, { size }) => sum + size, 0), parts };
}
