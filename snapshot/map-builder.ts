import type { PublishedMap, Reason } from "../hostmap/types.ts";
import { INDEX_KEY, INDEX_NAME, INDEX_VERSION, isShardName, type MapIndex, parseIndex } from "./map-format.ts";
import { assembleMap, type ParsedShard, parseShard } from "./published-map.ts";

const NO_INDEX: Reason = { code: "index-missing", text: `ConfigMap ${INDEX_NAME} with key ${INDEX_KEY} not found` };
const NOTHING: Reason = { code: "map-missing", text: "neither an index nor a shard of the map is there" };

/** Assembles a snapshot from ConfigMaps that arrive one by one, in any order. Each text is parsed once. */
export class SnapshotBuilder {
  #index: MapIndex | Reason = NO_INDEX;
  readonly #shards = new Map<string, ParsedShard>();

  /** Takes the text of a ConfigMap; undefined: it was deleted. A ConfigMap that is neither the index nor a shard is ignored. */
  put(name: string, text: string | undefined): void {
    if (name === INDEX_NAME) this.#index = text === undefined ? NO_INDEX : parseIndex(text);
    else if (!isShardName(name)) return;
    else if (text === undefined) this.#shards.delete(name);
    else this.#shards.set(name, parseShard(text));
  }

  /** The index, or why there is none. */
  get index(): MapIndex | Reason {
    return this.#index;
  }

  /** The map, or why the parts do not fit together. */
  build(): PublishedMap | Reason {
    return "code" in this.#index ? this.#index : assembleMap(this.#index, (name) => this.#shards.get(name));
  }

  /**
   * A map of the parts that exist, for a start without a last good map. A Reason if there is no part at all, or if the index is
   * of another version: its shards may be in another format.
   */
  buildPartial(): PublishedMap | Reason {
    if ("code" in this.#index && this.#index.code === INDEX_VERSION) return this.#index;
    if (this.#shards.size === 0) return NOTHING;
    const shards = [...this.#shards].map(([name, { shardHash }]) => ({ name, revision: shardHash }));
    const index = "code" in this.#index ? { revision: "unknown", targets: [], shards } : this.#index;
    return assembleMap(index, (name) => this.#shards.get(name), { partial: true });
  }
}
