import { MAP_KEY } from "../hostmap/metadata-keys.ts";
import type { Reason, TargetAddress } from "../hostmap/types.ts";
import { MAX_SHARDS } from "./shards.ts";

/** The ConfigMap of the index, and its only key. */
export const INDEX_NAME = "switchback-hosts";
export const INDEX_KEY = "index.json";
/** The only key of a shard's ConfigMap. */
export const SHARD_KEY = "hosts";
/** Labels of the index and of the shards, and the selector that lists them. */
export const MAP_LABELS: Readonly<Record<string, string>> = { [MAP_KEY]: "hosts" };
export const MAP_SELECTOR = `${MAP_KEY}=hosts`;

/** Created once: every run of the reconciler looks up the names of all shards, and each new string would be hashed again. */
const SHARD_NAMES: readonly string[] = Array.from({ length: MAX_SHARDS }, (_, index) => `${INDEX_NAME}-${index}`);
const SHARD_NAME_SET: ReadonlySet<string> = new Set(SHARD_NAMES);

/** The name of a shard's ConfigMap, from its index: 0 to `MAX_SHARDS` - 1. */
export function shardName(index: number): string {
  return SHARD_NAMES[index] ?? `${INDEX_NAME}-${index}`;
}

/** Whether a ConfigMap can be one of our shards. Another ConfigMap with our label belongs to somebody else. */
export function isShardName(name: string): boolean {
  return SHARD_NAME_SET.has(name);
}

/** A ConfigMap of the map, as the API server returns it. */
export interface MapConfigMap {
  readonly metadata: { readonly name: string; readonly annotations?: Readonly<Record<string, string>> };
  readonly data?: Readonly<Record<string, string>>;
}

/** The text that a ConfigMap of the map holds; undefined: an index without its key. A shard without its key is an empty text. */
export function textOf({ metadata, data }: MapConfigMap): string | undefined {
  return metadata.name === INDEX_NAME ? data?.[INDEX_KEY] : (data?.[SHARD_KEY] ?? "");
}

/**
 * Raised when a reader of the earlier format would go wrong. An index without a version is of version 1. The version covers the
 * shards too: no reader uses a shard beside an index of another version, so a shard carries no version of its own.
 */
const VERSION = 1;
/** Code of the Reason for an index of another version. */
export const INDEX_VERSION = "index-version";

/** The index: which shards make up the map, and where its targets are. JSON in the ConfigMap `switchback-hosts`, key `index.json`. */
export interface MapIndex {
  /** The map's revision: a hash of all shards. */
  readonly revision: string;
  readonly targets: readonly TargetAddress[];
  /** `name` is the shard's ConfigMap, `revision` the hash of its text. */
  readonly shards: ReadonlyArray<{ readonly name: string; readonly revision: string }>;
}

/** The text of `index.json`. Equal indexes give equal texts. */
export function renderIndex({ revision, targets, shards }: MapIndex): string {
  return `${JSON.stringify({ version: VERSION, revision, targets, shards }, null, 1)}\n`;
}

/** Reads an index that somebody may have edited by hand. A Reason says what is wrong with it. */
export function parseIndex(text: string): MapIndex | Reason {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { code: "index-not-json", text: `${INDEX_KEY} does not parse: ${String(error)}` };
  }
  const version = versionOf(value);
  if (version !== VERSION) {
    const text = `${INDEX_KEY} has version ${JSON.stringify(version).slice(0, 20)}; this release reads version ${VERSION}`;
    return { code: INDEX_VERSION, text };
  }
  if (!isIndex(value)) return { code: "index-malformed", text: `${INDEX_KEY} lacks revision, targets or shards` };
  const { revision, targets, shards } = value;
  return { revision, targets, shards };
}

function versionOf(value: unknown): unknown {
  return typeof value === "object" && value !== null && "version" in value ? value.version : VERSION;
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
