import type { MapStore, PublishedIndex } from "./map-store.ts";

/** A store for one process: the demo's webhook reads the same object that the controller writes. */
export class MemoryMapStore implements MapStore {
  readonly #shards = new Map<string, string>();
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

  shard(name: string): string | undefined {
    return this.#shards.get(name);
  }

  shardNames(): readonly string[] {
    return [...this.#shards.keys()];
  }

  async writeShard(name: string, text: string): Promise<void> {
    this.#shards.set(name, text);
    this.#notify();
  }

  async writeIndex(text: string, hold: string | undefined): Promise<void> {
    this.#index = { text, hold, confirmed: this.#index?.confirmed };
    this.#notify();
  }

  async removeShard(name: string): Promise<void> {
    this.#shards.delete(name);
    this.#notify();
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
