import { shortHash } from "../hostmap/hash.ts";
import { compareNames } from "../hostmap/hostnames.ts";
import { parseHosts } from "../hostmap/hosts-text.ts";
import type { PublishedMap, Reason, TargetAddress } from "../hostmap/types.ts";

/** The index: which shards make up the map, and where its targets are. JSON in the ConfigMap `switchback-hosts`, key `index.json`. */
export interface MapIndex {
  readonly revision: string;
  readonly targets: readonly TargetAddress[];
  /** `name` is the shard's ConfigMap, `revision` the hash of its text. */
  readonly shards: ReadonlyArray<{ readonly name: string; readonly revision: string }>;
}

/** Reads an index that somebody may have edited by hand: a Reason says what is wrong with it. */
export function parseIndex(text: string): MapIndex | Reason {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { code: "index-not-json", text: `index.json does not parse: ${String(error)}` };
  }
  if (!isIndex(value)) return { code: "index-malformed", text: "index.json lacks revision, targets or shards" };
  return value;
}

function isIndex(value: unknown): value is MapIndex {
  const index = value as Partial<MapIndex> | null;
  return (
    typeof index === "object" &&
    index !== null &&
    typeof index.revision === "string" &&
    Array.isArray(index.targets) &&
    index.targets.every((target) => typeof target?.name === "string" && isTexts(target.clusterIPs)) &&
    Array.isArray(index.shards) &&
    index.shards.every((shard) => typeof shard?.name === "string" && typeof shard.revision === "string")
  );
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === "string");
}

/** A shard as it was read: the hash of its text, and what it maps. */
export interface ParsedShard {
  readonly revision: string;
  readonly entries: ReadonlyMap<string, readonly string[]>;
  /** The names of `entries` in order, without wildcards. */
  readonly names: readonly string[];
}

/** Reads the text of one shard. Whoever follows the map keeps the answer: a change touches few shards. */
export function parseShard(text: string): ParsedShard {
  return partOf(shortHash(text), parseHosts(text));
}

/**
 * The map that an index and its shards make. A Reason means that they do not fit together (a publication is under way, or
 * something was deleted): whoever has a good map keeps it.
 * With `partial`, what is there is taken: every shard holds only decided mappings, so a mixture is still true.
 * Costs the number of shards; what has to be made of all names is made when it is asked for.
 */
export function assembleMap(
  index: MapIndex,
  shardOf: (name: string) => ParsedShard | undefined,
  options: { readonly partial?: boolean } = {},
): PublishedMap | Reason {
  const parts: ParsedShard[] = [];
  for (const { name, revision } of index.shards) {
    const shard = shardOf(name);
    if (!options.partial && shard?.revision !== revision) return shardReason(name, shard);
    if (shard !== undefined) parts.push(shard);
  }
  return options.partial ? mixtureOf(`${index.revision}-partial`, parts) : mapOfParts(index.revision, parts);
}

/** `assembleMap` from texts, by ConfigMap name. */
export function parsePublished(
  index: MapIndex,
  textOf: (shard: string) => string | undefined,
  options: { readonly partial?: boolean } = {},
): PublishedMap | Reason {
  const shardOf = (name: string): ParsedShard | undefined => {
    const text = textOf(name);
    return text === undefined ? undefined : parseShard(text);
  };
  return assembleMap(index, shardOf, options);
}

function shardReason(name: string, shard: ParsedShard | undefined): Reason {
  return shard === undefined
    ? { code: "shard-missing", text: `the shard ${name} is not there` }
    : { code: "shard-other-revision", text: `the shard ${name} has another revision than the index names` };
}

/** A map from entries (a hosts file, or shards); wildcards are left out, since a hosts file cannot hold them. */
export function publishedMapOf(revision: string, entries: ReadonlyMap<string, readonly string[]>): PublishedMap {
  return mapOfParts(revision, [partOf(revision, entries)]);
}

function partOf(revision: string, entries: ReadonlyMap<string, readonly string[]>): ParsedShard {
  return { revision, entries, names: [...entries.keys()].filter((name) => !name.startsWith("*.")).sort(compareNames) };
}

/** Parts of two publications may both hold a name; the first one's addresses are taken. */
function mixtureOf(revision: string, parts: readonly ParsedShard[]): PublishedMap {
  const entries = new Map<string, readonly string[]>();
  for (const part of parts.toReversed()) for (const [name, addresses] of part.entries) entries.set(name, addresses);
  return publishedMapOf(revision, entries);
}

/** Each name is in one part: the writer spreads them. */
function mapOfParts(revision: string, parts: readonly ParsedShard[]): PublishedMap {
  const lists = parts.map(({ names }) => names);
  let merged: readonly string[] | undefined;
  return {
    revision,
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

/** The first `count` names of sorted lists: the least of the lists' heads, again and again. */
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
