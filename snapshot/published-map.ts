import { shortHash } from "../hostmap/hash.ts";
import { compareNames } from "../hostmap/hostnames.ts";
import { parseHosts } from "../hostmap/hosts-text.ts";
import type { PublishedMap, Reason } from "../hostmap/types.ts";
import type { MapIndex } from "./map-format.ts";

/** Whether a result is a map, and not the Reason why there is none. */
export function isMap(result: PublishedMap | Reason): result is PublishedMap {
  return "revision" in result;
}

/** A shard as it was read: the hash of its text, and what it maps. */
export interface ParsedShard {
  readonly shardHash: string;
  readonly entries: ReadonlyMap<string, readonly string[]>;
  /** The names of `entries` in order, without wildcards. */
  readonly names: readonly string[];
}

/** Reads the text of one shard. Readers keep the result: a change of the map touches few shards. */
export function parseShard(text: string): ParsedShard {
  return partOf(shortHash(text), parseHosts(text));
}

/**
 * Assembles the map from its index and shards. A Reason means that they do not fit together (a publication is under way, or
 * something was deleted); a reader that has a good map keeps it.
 * With `partial`, missing and other shards are accepted: every shard holds only decided mappings, so a mixture is still correct.
 * The cost is linear in the number of shards. The sorted list of all names is created on first use.
 */
export function assembleMap(
  index: MapIndex,
  shardOf: (name: string) => ParsedShard | undefined,
  options: { readonly partial?: boolean } = {},
): PublishedMap | Reason {
  const parts: ParsedShard[] = [];
  for (const { name, revision } of index.shards) {
    const shard = shardOf(name);
    if (!options.partial && shard?.shardHash !== revision) return shardReason(name, shard);
    if (shard !== undefined) parts.push(shard);
  }
  return options.partial ? mixtureOf(`${index.revision}-partial`, parts) : mapOfParts(index.revision, parts);
}

function shardReason(name: string, shard: ParsedShard | undefined): Reason {
  return shard === undefined
    ? { code: "shard-missing", text: `the shard ${name} is not there` }
    : { code: "shard-other-revision", text: `the shard ${name} has another revision than the index names` };
}

/** A map from entries (a hosts file, or shards). Wildcards are left out, since a hosts file cannot hold them. */
export function publishedMapOf(mapRevision: string, entries: ReadonlyMap<string, readonly string[]>): PublishedMap {
  return mapOfParts(mapRevision, [partOf(mapRevision, entries)]);
}

function partOf(shardHash: string, entries: ReadonlyMap<string, readonly string[]>): ParsedShard {
  return { shardHash, entries, names: [...entries.keys()].filter((name) => !name.startsWith("*.")).sort(compareNames) };
}

/** Parts of two publications may both hold a name; the addresses of the first part win. */
function mixtureOf(mapRevision: string, parts: readonly ParsedShard[]): PublishedMap {
  const entries = new Map<string, readonly string[]>();
  for (const part of parts.toReversed()) for (const [name, addresses] of part.entries) entries.set(name, addresses);
  return publishedMapOf(mapRevision, entries);
}

/** Each name is in exactly one part: the writer spreads the names over the shards. */
function mapOfParts(mapRevision: string, parts: readonly ParsedShard[]): PublishedMap {
  const lists = parts.map(({ names }) => names);
  let merged: readonly string[] | undefined;
  return {
    revision: mapRevision,
    get names() {
      merged ??= lists.flat().sort(compareNames);
      return merged;
    },
    size: lists.reduce((sum, names) => sum + names.length, 0),
    first: (count) => merged?.slice(0, count) ?? firstOf(lists, count),
    addressesOf(name) {
      for (const { entries } of parts) {
        const addresses = entries.get(name);
        if (addresses !== undefined) return addresses;
      }
      return undefined;
    },
  };
}

/** The first `count` names of sorted lists, by a merge of the lists. */
function firstOf(lists: ReadonlyArray<readonly string[]>, count: number): readonly string[] {
  const heads = lists.map((names) => ({ names, at: 0 }));
  const first: string[] = [];
  while (first.length < count) {
    let least: (typeof heads)[number] | undefined;
    let next: string | undefined;
    for (const head of heads) {
      const name = head.names[head.at];
      if (name !== undefined && (next === undefined || name < next)) [least, next] = [head, name];
    }
    if (least === undefined || next === undefined) break;
    least.at += 1;
    first.push(next);
  }
  return first;
}
