import type { HostLine, PublishedMap, Reason } from "#hostmap/types.ts";
import { isWildcard } from "#hostmap/wildcards.ts";

/** Whether a result is a map and not a Reason. */
export function isMap<M extends { readonly revision: string }>(result: M | Reason): result is M {
  return "revision" in result;
}

/**
 * Returns a map of these lines. A hosts file cannot contain wildcards, so `hosts` does not have them. `known`: the same
 * lines by name. By default they are grouped on first use, because a leader seldom needs them.
 */
export function mapOfLines(
  head: Pick<PublishedMap, "revision" | "published">,
  all: readonly HostLine[],
  known?: ReadonlyMap<string, HostLine>,
): PublishedMap {
  let lines = known;
  return {
    ...head,
    hosts: all.filter(({ name }) => !isWildcard(name)),
    get lines() {
      lines ??= new Map(all.map((line) => [line.name, line]));
      return lines;
    },
  };
}

/** Returns a map of names and their addresses, as from a hosts file. */
export function publishedMapOf(revision: string, entries: ReadonlyMap<string, readonly string[]>): PublishedMap {
  return mapOfLines(
    { revision },
    Array.from(entries, ([name, addresses]) => ({ name, addresses })),
  );
}
