import { LeftOut, type NameProtection } from "#hostmap/protected-names.ts";
import type { PublishedMap } from "#hostmap/types.ts";
import { ANY_DEPTH } from "#hostmap/wildcards.ts";
import { hostsLines } from "./hosts-file.ts";
import type { Wildcards } from "./wildcard-zone.ts";

/** The map as the sidecar needs it. */
export interface DnsMap {
  readonly revision: string;
  /** Number of names, without wildcards. */
  readonly size: number;
  /** Lines of the hosts file. */
  readonly hosts: string;
  /** In the order of their first publication. */
  readonly wildcards: Wildcards;
  /** Names that the resolvers do not answer. */
  readonly leftOut: LeftOut;
}

/**
 * Returns the sidecar's form of a map. `protect` rejects names whatever the map has: with a stolen token of the
 * controller, anybody can publish any map.
 */
export function toDnsMap({ revision, lines }: PublishedMap, protect: NameProtection): DnsMap {
  const wildcards = new Map<string, readonly string[]>();
  const entries = new Map<string, readonly string[]>();
  const leftOut = new LeftOut();
  let size = 0;
  for (const { name, addresses } of lines.values()) {
    const reason = protect(name);
    if (reason !== undefined) {
      leftOut.add(reason);
      continue;
    }
    entries.set(name, addresses);
    if (name.startsWith(ANY_DEPTH)) wildcards.set(name.slice(ANY_DEPTH.length), addresses);
    if (!name.startsWith("*")) size += 1;
  }
  return { revision, size, hosts: hostsLines(entries), wildcards, leftOut };
}
