import { MAX_SHARDS } from "./shards.ts";

/** The ConfigMap that is the map's index, and the one key of it. */
export const INDEX_NAME = "switchback-hosts";
export const INDEX_KEY = "index.json";
/** The one key of a shard's ConfigMap. */
export const SHARD_KEY = "hosts";

/** Made once: the names of all shards are looked up at every turn, and a string made anew is hashed anew. */
const SHARD_NAMES: readonly string[] = Array.from({ length: MAX_SHARDS }, (_, index) => `${INDEX_NAME}-${index}`);

/** The ConfigMap of a shard, from its index: 0 to `MAX_SHARDS` - 1. */
export function shardName(index: number): string {
  return SHARD_NAMES[index] ?? `${INDEX_NAME}-${index}`;
}

const SHARD_NAME_SET: ReadonlySet<string> = new Set(SHARD_NAMES);

/** Whether a ConfigMap can be a shard of ours; another one that carries our label is a stranger's. */
export function isShardName(name: string): boolean {
  return SHARD_NAME_SET.has(name);
}
