import { shortHash } from "../hostmap/hash.ts";
import { parseHosts } from "../hostmap/hosts-text.ts";
import type { RemovalHold } from "../hostmap/removal-guard.ts";
import type { TargetAddress } from "../hostmap/types.ts";
import { type MapIndex, parseIndex, renderIndex, shardName } from "./map-format.ts";
import type { MapStore } from "./map-store.ts";
import { renderHold } from "./removal-hold.ts";
import { mapRevisionOf, type RenderedShard } from "./shards.ts";

/** What a publication did. */
export interface Publication {
  readonly mapRevision: string;
  /** Shards and bytes that were written; both 0 when nothing had changed. */
  readonly shards: number;
  readonly bytes: number;
}

/** How many shards are written in parallel. */
const PARALLEL_WRITES = 4;

/** What is to be published. */
export interface Snapshot {
  readonly shards: readonly RenderedShard[];
  readonly targets: readonly TargetAddress[];
  readonly hold: RemovalHold | undefined;
}

/** A snapshot's index and its annotation, as they are written. */
interface Document {
  readonly index: string;
  readonly hold: string | undefined;
  readonly mapRevision: string;
}

/** Publishes snapshots. Comparisons are remembered: comparing the whole map at every run would be expensive. */
export class MapWriter {
  readonly #store: MapStore;
  /** By shard: a text of the store that was found equal to the one with this hash. */
  readonly #verified = new Map<string, { text: string; readonly shardHash: string }>();
  #last: { readonly key: string; readonly shards: readonly RenderedShard[]; readonly document: Document } | undefined;

  constructor(store: MapStore) {
    this.#store = store;
  }

  /** Whether the store differs from the snapshot: after a change of ours, or because somebody edited it. */
  isStale(snapshot: Snapshot): boolean {
    const { index, hold } = this.#document(snapshot);
    const current = this.#store.index();
    return (
      current?.text !== index ||
      current.hold !== hold ||
      snapshot.shards.some((shard) => this.#isStaleShard(shard)) ||
      this.#store.shardNames().length > snapshot.shards.length
    );
  }

  /**
   * Writes what differs: shards first, then the index that names them; then surplus shards are deleted. A reader thus never
   * sees an index whose shards were not written. `signal` stops between writes: a former leader must not continue.
   */
  async publish(snapshot: Snapshot, signal: AbortSignal): Promise<Publication> {
    const { index, hold, mapRevision } = this.#document(snapshot);
    const stale = snapshot.shards.filter((shard) => this.#isStaleShard(shard));
    await this.#writeShards(stale, signal);
    let bytes = stale.reduce((sum, { text }) => sum + text.length, 0);
    const current = this.#store.index();
    if (current?.text !== index || current.hold !== hold) {
      signal.throwIfAborted();
      await this.#store.writeIndex(index, hold);
      bytes += index.length;
    }
    for (const name of this.#surplus(snapshot)) {
      signal.throwIfAborted();
      await this.#store.removeShard(name);
    }
    return { mapRevision, shards: stale.length, bytes };
  }

  /** Several in parallel: a first publication has many shards, and each write waits for etcd's disk. */
  async #writeShards(shards: readonly RenderedShard[], signal: AbortSignal): Promise<void> {
    for (let index = 0; index < shards.length; index += PARALLEL_WRITES) {
      signal.throwIfAborted();
      const some = shards.slice(index, index + PARALLEL_WRITES);
      await Promise.all(
        some.map(({ index: at, text, shardHash }) => this.#store.writeShard(shardName(at), text, shardHash)),
      );
    }
  }

  /**
   * The lines that an earlier leader published, from which a new leader starts. Only shards whose hash matches the index are
   * read: a text that somebody edited is not what a leader decided.
   */
  loadLines(): Map<string, readonly string[]> {
    const lines = new Map<string, readonly string[]>();
    const index = this.loadIndex();
    for (const { name, revision } of index?.shards ?? []) {
      const text = this.#store.shard(name);
      if (text === undefined || shortHash(text) !== revision) continue;
      for (const [host, addresses] of parseHosts(text)) lines.set(host, addresses);
    }
    return lines;
  }

  /** The published index; undefined when there is none, it does not parse or it has another version. */
  loadIndex(): MapIndex | undefined {
    const text = this.#store.index()?.text;
    if (text === undefined) return undefined;
    const index = parseIndex(text);
    return "code" in index ? undefined : index;
  }

  #isStaleShard(shard: RenderedShard): boolean {
    const name = shardName(shard.index);
    const text = this.#store.shard(name);
    if (text === undefined) return true;
    const verified = this.#verified.get(name);
    if (verified?.shardHash === shard.shardHash && verified.text === text) {
      // Comparing a string with itself is free. With an equal one (from the API server's response) it costs its length, so keep that.
      verified.text = text;
      return false;
    }
    if (text !== shard.text) return true;
    this.#verified.set(name, { text, shardHash: shard.shardHash });
    return false;
  }

  #surplus(snapshot: Snapshot): string[] {
    const wanted = new Set(snapshot.shards.map(({ index }) => shardName(index)));
    return this.#store.shardNames().filter((name) => !wanted.has(name));
  }

  #document(snapshot: Snapshot): Document {
    const key = JSON.stringify([snapshot.targets, snapshot.hold]);
    if (this.#last?.shards !== snapshot.shards || this.#last.key !== key) {
      this.#last = { key, shards: snapshot.shards, document: describe(snapshot) };
    }
    return this.#last.document;
  }
}

function describe({ shards, targets, hold }: Snapshot): Document {
  const mapRevision = mapRevisionOf(shards);
  const index: MapIndex = {
    revision: mapRevision,
    targets,
    shards: shards.map((shard) => ({ name: shardName(shard.index), revision: shard.shardHash })),
  };
  return { index: renderIndex(index), hold: hold && renderHold(hold), mapRevision };
}
