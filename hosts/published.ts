import { shortHash } from "./hash.ts";
import { compareNames } from "./names.ts";
import { parseHosts } from "./render.ts";
import type { PublishedMap, Reason, TargetAddress } from "./types.ts";

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
    index.targets.every((target) => typeof target?.name === "string" && Array.isArray(target.clusterIPs)) &&
    Array.isArray(index.shards) &&
    index.shards.every((shard) => typeof shard?.name === "string" && typeof shard.revision === "string")
  );
}

/** A shard as it was read: the hash of its text, and what it maps. */
export interface ParsedShard {
  readonly revision: string;
  readonly entries: ReadonlyMap<string, readonly string[]>;
}

/** Reads the text of one shard. Whoever follows the map keeps the answer: a change touches few shards. */
export function parseShard(text: string): ParsedShard {
  return { revision: shortHash(text), entries: parseHosts(text) };
}

/**
 * The map that an index and its shards make. A Reason means that they do not fit together (a publication is under way, or
 * something was deleted): whoever has a good map keeps it.
 * With `partial`, what is there is taken: every shard holds only decided mappings, so a mixture is still true.
 */
export function assembleMap(
  index: MapIndex,
  shardOf: (name: string) => ParsedShard | undefined,
  options: { readonly partial?: boolean } = {},
): PublishedMap | Reason {
  const entries = new Map<string, readonly string[]>();
  for (const { name, revision } of index.shards) {
    const shard = shardOf(name);
    if (!options.partial && shard?.revision !== revision) return shardReason(name, shard);
    for (const [host, addresses] of shard?.entries ?? []) entries.set(host, addresses);
  }
  return publishedMapOf(options.partial ? `${index.revision}-partial` : index.revision, entries);
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
  const names = [...entries.keys()].filter((name) => !name.startsWith("*.")).sort(compareNames);
  return { revision, names, addressesOf: (name) => entries.get(name) };
}
