import type { PublishedMap, Reason } from "#hostmap/types.ts";
import { SnapshotBuilder } from "./map-builder.ts";
import { COMPACT_INDEX_NAME } from "./map-format.ts";
import type { MapReader } from "./map-reader.ts";
import type { MapStore, PublishedIndex } from "./map-store.ts";

/** A store for one process, as in the demo: its webhook reads the same object that its controller writes. */
export class MemoryMapStore implements MapStore {
  readonly #shards = new Map<string, string>();
  #compact: string | undefined;
  #index: PublishedIndex | undefined;
  readonly #listeners = new Set<() => void>();

  get synced(): boolean {
    return true;
  }

  start(onChange: () => void): void {
    this.#listeners.add(onChange);
  }

  index(): PublishedIndex | undefined {
    return this.#index;
  }

  compactIndex(): string | undefined {
    return this.#compact;
  }

  shard(name: string): string | undefined {
    return this.#shards.get(name);
  }

  shardNames(): readonly string[] {
    return [...this.#shards.keys()];
  }

  beginTerm(): void {}

  async writeShard(name: string, text: string): Promise<void> {
    this.#shards.set(name, text);
    this.#notify();
  }

  async writeCompactIndex(text: string): Promise<void> {
    this.#compact = text;
    this.#notify();
  }

  async writeIndex(text: string, hold: string | undefined, superseded: boolean): Promise<void> {
    this.#index = { text, superseded, hold, confirmed: this.#index?.confirmed };
    this.#notify();
  }

  async removeShard(name: string): Promise<void> {
    this.#shards.delete(name);
    this.#notify();
  }

  /** The map, or why there is none, as a reader that follows the published map sees it. */
  read(): PublishedMap | Reason {
    const builder = new SnapshotBuilder();
    builder.put(COMPACT_INDEX_NAME, this.compactIndex());
    for (const name of this.shardNames()) builder.put(name, this.shard(name));
    return builder.build();
  }

  /** What `switchback confirm` does on a cluster. */
  confirm(id: string): void {
    if (this.#index !== undefined) this.#index = { ...this.#index, confirmed: id };
    this.#notify();
  }

  async stop(): Promise<void> {
    this.#listeners.clear();
  }

  #notify(): void {
    for (const listener of this.#listeners) listener();
  }
}

/** Follows the map of a store in the same process. Stopping the store ends it. */
export function memoryMapReader(store: MemoryMapStore): MapReader {
  return {
    start(found) {
      store.start(() => found(store.read()));
      return { stop: async () => {} };
    },
  };
}
