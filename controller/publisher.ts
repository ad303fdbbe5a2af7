import { shortHash } from "../hosts/hash.ts";
import type { Hold } from "../hosts/ledger.ts";
import type { MapIndex } from "../hosts/published.ts";
import { parseIndex } from "../hosts/published.ts";
import { parseHosts } from "../hosts/render.ts";
import { mapRevision, type RenderedShard } from "../hosts/shards.ts";
import type { TargetAddress } from "../hosts/types.ts";
import { type MapStore, shardName } from "./store.ts";

/** What a publication did. */
export interface Publication {
  readonly revision: string;
  /** Shards and bytes that were written; both 0 when everything stood there already. */
  readonly shards: number;
  readonly bytes: number;
}

/** What should stand in the store. */
export interface Edition {
  readonly shards: readonly RenderedShard[];
  readonly targets: readonly TargetAddress[];
  readonly hold: Hold | undefined;
}

/** Revisions of shards as they stand in the store; hashing each text again at every turn would cost the whole map. */
export class Publisher {
  readonly #store: MapStore;
  readonly #revisions = new Map<string, { readonly text: string; readonly revision: string }>();

  constructor(store: MapStore) {
    this.#store = store;
  }

  /** Whether the store differs from the edition: after a change of ours, or because somebody touched it. */
  isStale(edition: Edition): boolean {
    const { index, hold } = document(edition);
    const current = this.#store.index();
    return (
      current?.text !== index ||
      current.hold !== hold ||
      edition.shards.some((shard) => this.#isStaleShard(shard)) ||
      this.#surplus(edition).length > 0
    );
  }

  /**
   * Writes what differs: shards first, then the index that names them, then the removal of shards that nothing names. A reader
   * thus never sees an index whose shards were not written. `signal` stops between writes: a deposed leader must not go on.
   */
  async publish(edition: Edition, signal: AbortSignal): Promise<Publication> {
    const { index, hold, revision } = document(edition);
    let bytes = 0;
    let shards = 0;
    for (const shard of edition.shards) {
      if (!this.#isStaleShard(shard)) continue;
      signal.throwIfAborted();
      await this.#store.writeShard(shardName(shard.index), shard.text, shard.revision);
      bytes += shard.text.length;
      shards += 1;
    }
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
    return { revision, shards, bytes };
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
    let known = this.#revisions.get(name);
    if (known?.text !== text) {
      known = { text, revision: shortHash(text) };
      this.#revisions.set(name, known);
    }
    return known.revision !== shard.revision;
  }

  #surplus(edition: Edition): string[] {
    const wanted = new Set(edition.shards.map(({ index }) => shardName(index)));
    return this.#store.shardNames().filter((name) => !wanted.has(name));
  }
}

function document({ shards, targets, hold }: Edition): { index: string; hold: string | undefined; revision: string } {
  const revision = mapRevision(shards);
  const index: MapIndex = {
    revision,
    targets,
    shards: shards.map((shard) => ({ name: shardName(shard.index), revision: shard.revision })),
  };
  return { index: `${JSON.stringify(index, null, 1)}\n`, hold: hold && JSON.stringify(hold), revision };
}
