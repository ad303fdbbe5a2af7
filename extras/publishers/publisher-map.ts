import { shortHash } from "#hostmap/hash.ts";
import { parseHosts } from "#hostmap/hosts-text.ts";
import type { SnapshotForm } from "#lib/documents/map-builder.ts";
import type { HashedShard } from "#lib/documents/published-map.ts";

/** A name, which may be a wildcard (lib/hostmap/wildcards.ts), with its addresses: one or two. */
type Entry = readonly [name: string, addresses: readonly string[]];

/** The map as publishers read it. */
export interface PublisherMap {
  /** Equal revisions mean equal content. */
  readonly revision: string;
  /** Every name once, those first that were published first. Sorted on first use. */
  readonly entries: readonly Entry[];
}

interface PublisherShard extends HashedShard {
  readonly entries: ReadonlyMap<string, readonly string[]>;
  readonly orders: ReadonlyMap<string, number>;
}

/** How the map is read for publishers. */
export const PUBLISHER_MAP: SnapshotForm<PublisherShard, PublisherMap> = {
  parse(text) {
    const orders = new Map<string, number>();
    return { shardHash: shortHash(text), entries: parseHosts(text, orders), orders };
  },
  assemble(revision, parts) {
    let sorted: readonly Entry[] | undefined;
    return {
      revision,
      get entries() {
        sorted ??= parts
          .flatMap(({ entries, orders }) =>
            [...entries].map(([name, addresses]) => ({ name, addresses, order: orders.get(name) ?? 0 })),
          )
          .sort((a, b) => a.order - b.order || (a.name < b.name ? -1 : 1))
          .map(({ name, addresses }) => [name, addresses] as const);
        return sorted;
      },
    };
  },
};
