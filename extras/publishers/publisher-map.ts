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
  /** Every name once, those first that were published first. Sorted on first use. */
  readonly entries: readonly Entry[];
  /** Names of the map that no publisher gives to DNS. */
  readonly leftOut?: Pick<LeftOut, "count" | "reason">;
}

interface PublisherShard extends HashedShard {
  readonly entries: ReadonlyMap<string, readonly string[]>;
  readonly orders: ReadonlyMap<string, number>;
}

/**
 * How the map is read for a publisher. `protect` has the last word on what is given to DNS: a stolen token of the
 * controller publishes any map.
 */
export function publisherMapForm(protect: NameProtection): SnapshotForm<PublisherShard, PublisherMap> {
  return {
    parse(text) {
      const orders = new Map<string, number>();
      return { shardHash: shortHash(text), entries: parseHosts(text, orders), orders };
    },
    assemble(revision, parts) {
      let sorted: ReturnType<typeof sortedEntries> | undefined;
      const all = () => {
        sorted ??= sortedEntries(parts, protect);
        return sorted;
      };
      return {
        revision,
        get entries() {
          return all().entries;
        },
        get leftOut() {
          return all().leftOut;
        },
      };
    },
  };
}

function sortedEntries(parts: readonly PublisherShard[], protect: NameProtection) {
  const leftOut = new LeftOut();
  const isAllowed = (name: string): boolean => {
    const reason = protect(name);
    if (reason !== undefined) leftOut.add(reason);
    return reason === undefined;
  };
  const entries: readonly Entry[] = parts
    .flatMap(({ entries, orders }) =>
      [...entries].map(([name, addresses]) => ({ name, addresses, order: orders.get(name) ?? 0 })),
    )
    .filter(({ name }) => isAllowed(name))
    .sort((a, b) => a.order - b.order || (a.name < b.name ? -1 : 1))
    .map(({ name, addresses }) => [name, addresses] as const);
  return { entries, leftOut };
}
