import type { PublishedMap, Reason } from "#hostmap/types.ts";
import { SnapshotBuilder } from "./map-builder.ts";
import { INDEX_NAME } from "./map-format.ts";
import type { MapReader } from "./map-reader.ts";
import type { MapStore, PublishedState } from "./map-store.ts";

/** A store within one process, as in the demo: its webhook reads the object that its controller writes. */
export class MemoryMapStore implements MapStore {
  readonly #shards = new Map<string, string>();
  #index: string | undefined;
  #state: PublishedState | undefined;
  readonly #listeners = new Set<() => void>();

  get synced(): boolean {
    return true;
  }

  start(onChange: () => void): void {
    this.#listeners.add(onChange);
  }

  index(): string | undefined {
    return this.#index;
  }

  state(): PublishedState | undefined {
    return this.#state;
  }

  shard(name: string): string | undefined {
    return this.#shards.get(name);
  }

  shardNames(): readonly string[] {
    return [...this.#shards.keys()];
  }

  async beginTerm(): Promise<void> {}

  async writeShard(name: string, text: string): Promise<void> {
    this.#shards.set(name, text);
    this.#notify();
  }

  async writeIndex(text: string): Promise<void> {
    this.#index = text;
    this.#notify();
  }

  async writeState(text: string, hold: string | undefined): Promise<void> {
    this.#state = { text, hold, confirmed: this.#state?.confirmed };
    this.#notify();
  }

  async removeShard(name: string): Promise<void> {
    this.#shards.delete(name);
    this.#notify();
  }

  /** Returns the map, or the Reason, that a reader of the published map gets. */
  read(): PublishedMap | Reason {
    const builder = new SnapshotBuilder();
    builder.put(INDEX_NAME, this.index());
    for (const name of this.shardNames()) builder.put(name, this.shard(name));
    return builder.build();
  }

  /** Does what `switchback confirm` does on a cluster. */
  confirm(id: string): void {
    if (this.#state !== undefined) this.#state = { ...this.#state, confirmed: id };
    this.#notify();
  }

  async stop(): Promise<void> {
    this.#listeners.clear();
  }

  #notify(): void {
    for (const listener of this.#listeners) listener();
  }
}

/** Follows the map of a store in the same process. It ends when the store is stopped. */
export function memoryMapReader(store: MemoryMapStore): MapReader {
  return {
    start(found) {
      store.start(() => found(store.read()));
      return { stop: async () => {} };
    },
  };
}
