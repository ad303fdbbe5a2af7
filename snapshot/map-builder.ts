import type { PublishedMap, Reason } from "../hostmap/types.ts";
import {
  COMPACT_INDEX_NAME,
  INDEX_KEY,
  INDEX_NAME,
  isShardName,
  type MapIndex,
  parseCompactIndex,
  parseIndex,
} from "./map-format.ts";
import { assembleMap, type ParsedShard, parseShard } from "./published-map.ts";

const NO_INDEX: Reason = { code: "index-missing", text: `ConfigMap ${INDEX_NAME} with key ${INDEX_KEY} not found` };

/** Assembles a snapshot from ConfigMaps that arrive one by one, in any order. Each text is parsed once. */
export class SnapshotBuilder {
  #index: MapIndex | Reason | undefined;
  #compact: MapIndex | Reason | undefined;
  readonly #shards = new Map<string, ParsedShard>();

  /** Takes the text of a ConfigMap; undefined: it was deleted. A ConfigMap that is neither an index nor a shard is ignored. */
  put(name: string, text: string | undefined): void {
    if (name === INDEX_NAME) this.#index = text === undefined ? undefined : parseIndex(text);
    else if (name === COMPACT_INDEX_NAME) this.#compact = text === undefined ? undefined : parseCompactIndex(text);
    else if (!isShardName(name)) return;
    else if (text === undefined) this.#shards.delete(name);
    else this.#shards.set(name, parseShard(text));
  }

  /** The index, or why there is none. A reader that gets the index of format 0 takes it: see `SUPERSEDED_LABELS`. */
  get index(): MapIndex | Reason {
    return this.#index ?? this.#compact ?? NO_INDEX;
  }

  /** The map, or why the parts do not fit together. */
  build(): PublishedMap | Reason {
    const { index } = this;
    return "code" in index ? index : assembleMap(index, (name) => this.#shards.get(name));
  }
}
