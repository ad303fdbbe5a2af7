import { shortHash } from "#hostmap/hash.ts";
import { parseHosts } from "#hostmap/hosts-text.ts";
import { LeftOut, type NameProtection } from "#hostmap/protected-names.ts";
import type { SnapshotForm } from "#lib/documents/map-builder.ts";
import type { HashedShard } from "#lib/documents/published-map.ts";

/** A name, which may be a wildcard (lib/hostmap/wildcards.ts), with its addresses: one or two. */
type Entry = readonly [name: string, addresses: readonly string[]];

/** The map as publishers read it. */
export interface PublisherMap {
  /** Equal revisions mean equal content. */
  readonly revision: string;
  /** Every name once. Names that were published first come first. Sorted on first use. */
  readonly entries: readonly Entry[];
  /** Names of the map that no publisher gives to DNS. */
  readonly leftOut?: Pick<LeftOut, "count" | "reason">;
}

interface PublisherShard extends HashedShard {
  readonly entries: ReadonlyMap<string, readonly string[]>;
  readonly orders: ReadonlyMap<string, number>;
  readonly leftOut: LeftOut;
}

/**
 * How the map is read for a publisher. `protect` has the last word on what is given to DNS, because a stolen token of
 * the controller can publish any map.
 */
export function publisherMapForm(protect: NameProtection): SnapshotForm<PublisherShard, PublisherMap> {
  return {
    parse(text) {
      const orders = new Map<string, number>();
      const [entries, leftOut] = [parseHosts(text, orders), new LeftOut()];
      for (const name of entries.keys()) {
        const reason = protect(name);
        if (reason === undefined) continue;
        leftOut.add(reason);
        entries.delete(name);
      }
      return { shardHash: shortHash(text), entries, orders, leftOut };
    },
    assemble(revision, parts) {
      const leftOut = new LeftOut();
      for (const part of parts) leftOut.addAll(part.leftOut);
      let sorted: readonly Entry[] | undefined;
      return {
        revision,
        leftOut,
        get entries() {
          sorted ??= sortedEntries(parts);
          return sorted;
        },
      };
    },
  };
}

function sortedEntries(parts: readonly PublisherShard[]): readonly Entry[] {
  return parts
    .flatMap(({ entries, orders }) =>
      [...entries].map(([name, addresses]) => ({ name, addresses, order: orders.get(name) ?? 0 })),
    )
    .sort((a, b) => a.order - b.order || (a.name < b.name ? -1 : 1))
    .map(({ name, addresses }) => [name, addresses] as const);
}
