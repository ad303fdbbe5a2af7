import type { PublishedMap, Reason } from "../hostmap/types.ts";
import { assembleMap, type MapIndex, type ParsedShard, parseIndex, parseShard } from "./map-format.ts";

/** Puts a map together from ConfigMaps that arrive one by one, in any order. */
export interface SnapshotBuilder {
  /** The text of the index or of a shard; undefined: it is gone. */
  putIndex(text: string | undefined): void;
  putShard(name: string, text: string | undefined): void;
  /** What all of it makes: a map, or why the parts do not fit together. */
  build(): PublishedMap | Reason;
  /** What is there, fitting or not; for a start without a last good map. A Reason if there is nothing at all. */
  buildPartial(): PublishedMap | Reason;
}

const NO_INDEX: Reason = { code: "index-missing", text: "the index of the map is not there" };
const NOTHING: Reason = { code: "map-missing", text: "neither an index nor a shard of the map is there" };

export function createSnapshotBuilder(): SnapshotBuilder {
  let index: MapIndex | Reason = NO_INDEX;
  const shards = new Map<string, ParsedShard>();
  const shardOf = (name: string): ParsedShard | undefined => shards.get(name);
  return {
    putIndex(text) {
      index = text === undefined ? NO_INDEX : parseIndex(text);
    },
    putShard(name, text) {
      if (text === undefined) shards.delete(name);
      else shards.set(name, parseShard(text));
    },
    build: () => ("code" in index ? index : assembleMap(index, shardOf)),
    buildPartial() {
      if (shards.size === 0) return NOTHING;
      const all = {
        revision: "unknown",
        targets: [],
        shards: [...shards].map(([name, { revision }]) => ({ name, revision })),
      };
      return assembleMap("code" in index ? all : index, shardOf, { partial: true });
    },
  };
}
