import { shortHash } from "../hostmap/hash.ts";
import { parseHosts } from "../hostmap/hosts-text.ts";
import type { RemovalHold } from "../hostmap/published-names.ts";
import type { TargetAddress } from "../hostmap/types.ts";
import type { MapIndex } from "./map-format.ts";
import { parseIndex } from "./map-format.ts";
import { shardName } from "./map-objects.ts";
import type { MapStore } from "./map-store.ts";
import { mapRevision, type RenderedShard } from "./shards.ts";

/** What a publication did. */
export interface Publication {
  readonly revision: string;
  /** Shards and bytes that were written; both 0 when everything stood there already. */
  readonly shards: number;
  readonly bytes: number;
}

/** Shards that are written at a time. */
const AT_A_TIME = 4;

/** What should stand in the store. */
export interface Snapshot {
  readonly shards: readonly RenderedShard[];
  readonly targets: readonly TargetAddress[];
  readonly hold: RemovalHold | undefined;
}

/** An edition's index, as it should stand in the store. */
interface Document {
  readonly index: string;
  readonly hold: string | undefined;
  readonly revision: string;
}

/** Brings the store to an edition. What was compared once is remembered: looking at the whole map again would cost every turn. */
export class MapWriter {
  readonly #store: MapStore;
  /** By shard: a text of the store's that was seen to be the one of this revision. */
  readonly #verified = new Map<string, { text: string; readonly revision: string }>();
  #last: { readonly key: string; readonly shards: readonly RenderedShard[]; readonly document: Document } | undefined;

  constructor(store: MapStore) {
    this.#store = store;
  }

  /** Whether the store differs from the edition: after a change of ours, or because somebody touched it. */
  isStale(edition: Snapshot): boolean {
    const { index, hold } = this.#document(edition);
    const current = this.#store.index();
    return (
      current?.text !== index ||
      current.hold !== hold ||
      edition.shards.some((shard) => this.#isStaleShard(shard)) ||
      this.#store.shardNames().length > edition.shards.length
    );
  }

  /**
   * Writes what differs: shards first, then the index that names them, then the removal of shards that nothing names. A reader
   * thus never sees an index whose shards were not written. `signal` stops between writes: a deposed leader must not go on.
   */
  async publish(edition: Snapshot, signal: AbortSignal): Promise<Publication> {
    const { index, hold, revision } = this.#document(edition);
    const stale = edition.shards.filter((shard) => this.#isStaleShard(shard));
    await this.#writeShards(stale, signal);
    let bytes = stale.reduce((sum, { text }) => sum + text.length, 0);
    const current = this.#store.index();
    if (current?.text !== index || current.hold !== hold) {
      signal.throwIfAborted();
      await this.#store.writeIndex(index, hold);
      bytes += index.length;
    }
    for (const name of this.#surplus(edition)) {
      signal.throwIfAborted();
      await this.#store.removeShard(name);
    }
    return { revision, shards: stale.length, bytes };
  }

  /** Several at a time: a first publication has many, and each waits for etcd's disk. */
  async #writeShards(shards: readonly RenderedShard[], signal: AbortSignal): Promise<void> {
    for (let index = 0; index < shards.length; index += AT_A_TIME) {
      signal.throwIfAborted();
      const some = shards.slice(index, index + AT_A_TIME);
      await Promise.all(
        some.map(({ index: at, text, revision }) => this.#store.writeShard(shardName(at), text, revision)),
      );
    }
  }

  /**
   * What an earlier leader published, for a new one to start from. Only shards that are as the index says count: a text that
   * somebody edited is not what was decided.
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

  /** The published index; undefined when there is none or it does not parse. */
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
    if (verified?.revision === shard.revision && verified.text === text) {
      // Comparing a string with itself is free; with an equal one (an echo of the API server's) it costs its length, so keep that.
      verified.text = text;
      return false;
    }
    if (text !== shard.text) return true;
    this.#verified.set(name, { text, revision: shard.revision });
    return false;
  }

  #surplus(edition: Snapshot): string[] {
    const wanted = new Set(edition.shards.map(({ index }) => shardName(index)));
    return this.#store.shardNames().filter((name) => !wanted.has(name));
  }

  #document(edition: Snapshot): Document {
    const key = JSON.stringify([edition.targets, edition.hold]);
    if (this.#last?.shards !== edition.shards || this.#last.key !== key) {
      this.#last = { key, shards: edition.shards, document: describe(edition) };
    }
    return this.#last.document;
  }
}

function describe({ shards, targets, hold }: Snapshot): Document {
  const revision = mapRevision(shards);
  const index: MapIndex = {
    revision,
    targets,
    shards: shards.map((shard) => ({ name: shardName(shard.index), revision: shard.revision })),
  };
  return { index: `${JSON.stringify(index, null, 1)}\n`, hold: hold && JSON.stringify(hold), revision };
}
