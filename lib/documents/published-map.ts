import type { HostLine, PublishedMap, Reason } from "#hostmap/types.ts";
import { isWildcard } from "#hostmap/wildcards.ts";

/** Whether a result is a map and not a Reason. */
export function isMap<M extends { readonly revision: string }>(result: M | Reason): result is M {
  return "revision" in result;
}

/**
 * Returns a map of these lines. A hosts file cannot contain wildcards, so `hosts` does not have them. `known`: the same
 * lines by name. Both forms are made on first use, because a leader seldom needs them.
 */
export function mapOfLines(
  head: Pick<PublishedMap, "revision" | "published">,
  all: readonly HostLine[],
  known?: ReadonlyMap<string, HostLine>,
): PublishedMap {
  let hosts: readonly HostLine[] | undefined;
  let lines = known;
  return {
    ...head,
    get hosts() {
      hosts ??= all.filter(({ name }) => !isWildcard(name));
      return hosts;
    },
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
