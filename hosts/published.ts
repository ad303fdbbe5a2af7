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

/**
 * The map that an index and its shards make. `textOf` gives a shard's text by ConfigMap name. A Reason means that they do not
 * fit together (a publication is under way, or something was deleted): whoever has a good map keeps it.
 * With `partial`, what is there is taken: every shard holds only decided mappings, so a mixture is still true.
 */
export function parsePublished(
  index: MapIndex,
  textOf: (shard: string) => string | undefined,
  options: { readonly partial?: boolean } = {},
): PublishedMap | Reason {
  const texts: string[] = [];
  for (const shard of index.shards) {
    const text = textOf(shard.name);
    if (text !== undefined && (options.partial || shortHash(text) === shard.revision)) texts.push(text);
    else if (!options.partial) return shardReason(shard.name, text);
  }
  const revision = options.partial ? `${index.revision}-partial` : index.revision;
  return publishedMapOf(revision, parseHosts(texts.join("")));
}

function shardReason(name: string, text: string | undefined): Reason {
  return text === undefined
    ? { code: "shard-missing", text: `the shard ${name} is not there` }
    : { code: "shard-other-revision", text: `the shard ${name} has another revision than the index names` };
}

/** A map from entries (a hosts file, or shards); wildcards are left out, since a hosts file cannot hold them. */
export function publishedMapOf(revision: string, entries: ReadonlyMap<string, readonly string[]>): PublishedMap {
  const names = [...entries.keys()].filter((name) => !name.startsWith("*.")).sort(compareNames);
  return { revision, names, addressesOf: (name) => entries.get(name) };
}
