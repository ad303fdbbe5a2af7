import { LeftOut, type NameProtection } from "#hostmap/protected-names.ts";
import type { PublishedMap } from "#hostmap/types.ts";

/** A name, which may be a wildcard (lib/hostmap/wildcards.ts), with its addresses: one or two. */
type Entry = readonly [name: string, addresses: readonly string[]];

/** The map as publishers read it. */
export interface PublisherMap {
  /** Equal revisions mean equal content. */
  readonly revision: string;
  /** Every name once. Names that were published first come first. */
  readonly entries: readonly Entry[];
  /** Names of the map that no publisher gives to DNS. */
  readonly leftOut?: Pick<LeftOut, "count" | "reason">;
}

/**
 * Returns the map for a publisher. `protect` has the last word on what is given to DNS, because a stolen token of the
 * controller can publish any map.
 */
export function toPublisherMap({ revision, lines }: PublishedMap, protect: NameProtection): PublisherMap {
  const leftOut = new LeftOut();
  const entries: Entry[] = [];
  for (const { name, addresses } of lines.values()) {
    const reason = protect(name);
    if (reason === undefined) entries.push([name, addresses]);
    else leftOut.add(reason);
  }
  return { revision, entries, leftOut };
}
