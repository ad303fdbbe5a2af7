import type { HostLine, PublishedMap, Reason } from "#hostmap/types.ts";
import { isWildcard } from "#hostmap/wildcards.ts";

/** Whether a result is a map and not a Reason. */
export function isMap<M extends { readonly revision: string }>(result: M | Reason): result is M {
  return "revision" in result;
}

/** Returns a map of these lines. Its names do not include wildcards, because a hosts file cannot contain them. */
export function mapOfLines(revision: string, lines: ReadonlyMap<string, HostLine>): PublishedMap {
  const names = [...lines.keys()].filter((name) => !isWildcard(name));
  return { revision, names, lines, addressesOf: (name) => lines.get(name)?.addresses };
}

/** Returns a map of names and their addresses, as from a hosts file. */
export function publishedMapOf(revision: string, entries: ReadonlyMap<string, readonly string[]>): PublishedMap {
  return mapOfLines(revision, new Map(Array.from(entries, ([name, addresses]) => [name, { name, addresses }])));
}
