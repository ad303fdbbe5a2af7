import type { PublishedMap, Reason } from "#hostmap/types.ts";
import { INDEX_KEY, INDEX_NAME, isShardName, type MapIndex, parseIndex } from "./map-format.ts";
import { assembleMap, type HashedShard, mapOfParts, type ParsedShard, parseShard } from "./published-map.ts";

const NO_INDEX: Reason = { code: "index-missing", text: `ConfigMap ${INDEX_NAME} with key ${INDEX_KEY} not found` };

/** How a reader parses each shard, and what it builds from all of them. */
export interface SnapshotForm<P extends HashedShard, M> {
  readonly parse: (text: string) => P;
  readonly assemble: (revision: string, parts: readonly P[]) => M;
}

/** Assembles a snapshot from ConfigMaps that arrive one by one, in any order. Each text is parsed once. */
export class SnapshotAssembler<P extends HashedShard, M> {
  readonly #form: SnapshotForm<P, M>;
  #index: MapIndex | Reason | undefined;
  readonly #shards = new Map<string, P>();

  constructor(form: SnapshotForm<P, M>) {
    this.#form = form;
  }

  /**
   * Stores the text of a ConfigMap. Undefined: it was deleted. A ConfigMap that is neither index nor shard is
   * ignored.
   */
  put(name: string, text: string | undefined): void {
    if (name === INDEX_NAME) this.#index = text === undefined ? undefined : parseIndex(text);
    else if (!isShardName(name)) return;
    else if (text === undefined) this.#shards.delete(name);
    else this.#shards.set(name, this.#form.parse(text));
  }

  /** Returns the index, or the reason why it is missing. */
  get index(): MapIndex | Reason {
    return this.#index ?? NO_INDEX;
  }

  /** Returns the map, or the reason why its parts do not match. */
  build(): M | Reason {
    const { index } = this;
    return "code" in index ? index : assembleMap(index, (name) => this.#shards.get(name), this.#form.assemble);
  }
}

/** Assembles the map with its names. Most readers use this form. */
export class SnapshotBuilder extends SnapshotAssembler<ParsedShard, PublishedMap> {
  constructor() {
    super(PUBLISHED_MAP);
  }
}

export const PUBLISHED_MAP: SnapshotForm<ParsedShard, PublishedMap> = { parse: parseShard, assemble: mapOfParts };
