import { shortHash } from "#hostmap/hash.ts";
import { parseHosts } from "#hostmap/hosts-text.ts";
import type { PublishedLine } from "#hostmap/published-names.ts";
import type { RemovalHold } from "#hostmap/removal-guard.ts";
import type { Reason, TargetAddress } from "#hostmap/types.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import {
  INDEX_VERSION,
  isNamedHash,
  type MapIndex,
  type MapState,
  parseIndex,
  parseState,
  renderIndex,
  renderState,
  SHARD_NAMES,
} from "./map-format.ts";
import type { MapStore } from "./map-store.ts";
import { renderHold } from "./removal-hold.ts";
import { mapRevisionOf, type RenderedShard } from "./shards.ts";

/** A published line. The map does not say which target its addresses are of. */
export type LoadedLine = Omit<PublishedLine, "target">;

/** The result of a publication. */
export interface Publication {
  readonly mapRevision: string;
  /** The number of written shards, and the bytes of these and of the index. Each reader receives these bytes. */
  readonly shards: number;
  readonly bytes: number;
}

/** Number of objects that are written in parallel. */
const PARALLEL_WRITES = 4;
/**
 * Maximum number of spares: shards that the index no longer names. Later publications write to them. Deleting a shard
 * would send its text to every reader.
 */
const MAX_SPARES = 8;

/** The content of a publication. */
export interface Snapshot {
  readonly shards: readonly RenderedShard[];
  readonly targets: readonly TargetAddress[];
  readonly hold: RemovalHold | undefined;
}

/** The content of the store for a snapshot. */
interface Layout {
  readonly mapRevision: string;
  /** The names of all shards, in the order of the shards. */
  readonly names: readonly string[];
  /** Shards that the store does not have yet, by the free names for them. */
  readonly missing: ReadonlyMap<string, RenderedShard>;
  readonly index: string;
  readonly state: string;
  readonly hold: string | undefined;
}

/**
 * Publishes snapshots. A shard that the index names is never written: its new text goes to a free name, then the
 * index names it. So after each single write the index names only existing shards. The state follows the index.
 */
export class MapWriter {
  readonly #store: MapStore;
  /** By name: a text in the store that was found equal to the shard with this hash. */
  readonly #verified = new Map<string, { text: string; readonly shardHash: string }>();
  readonly #parseIndex = memoized(parseIndex);
  readonly #parseState = memoized(parseState);
  /** Shards that this writer wrote and that the index no longer names. */
  readonly #spares = new Set<string>();
  #last:
    | {
        readonly shards: readonly RenderedShard[];
        readonly basis: readonly (string | undefined)[];
        readonly layout: Layout;
      }
    | undefined;

  constructor(store: MapStore) {
    this.#store = store;
  }

  /**
   * Begins a term. Call it before anything else is written in this term. Gives the index and the state new versions,
   * and removes the shards that the index does not name. So the API server refuses a former leader's write that is
   * still in flight. Throws `data-corrupt` for a map of an unknown version, and leaves it unchanged.
   */
  async begin(signal: AbortSignal): Promise<void> {
    for (const part of [this.#index(), this.#state()]) {
      if (part !== undefined && "code" in part && part.code === INDEX_VERSION)
        throw new SwitchbackError("data-corrupt", `the published map is left as it is: ${part.text}`);
    }
    this.#spares.clear();
    await this.#store.beginTerm();
    await this.#removeSurplus(signal);
  }

  /** Whether the store differs from the snapshot: after our own change, or because somebody edited the store. */
  isStale(snapshot: Snapshot): boolean {
    const layout = this.#layout(snapshot);
    return (
      layout.missing.size > 0 ||
      this.#store.index() !== layout.index ||
      !this.#hasState(layout) ||
      this.#surplus().length > 0
    );
  }

  /** Writes the differences. `signal` stops it between writes, because a former leader must not continue. */
  async publish(snapshot: Snapshot, signal: AbortSignal): Promise<Publication> {
    const layout = this.#layout(snapshot);
    const { mapRevision, missing, index, state, hold } = layout;
    const before = this.#named();
    await inParallel([...missing], signal, async ([name, shard]) => {
      await this.#store.writeShard(name, shard.text);
      this.#verified.set(name, { text: shard.text, shardHash: shard.shardHash });
    });
    let bytes = missing.values().reduce((sum, { text }) => sum + text.length, 0);
    if (this.#store.index() !== index) {
      signal.throwIfAborted();
      await this.#store.writeIndex(index);
      bytes += index.length;
    }
    if (!this.#hasState(layout)) {
      signal.throwIfAborted();
      await this.#store.writeState(state, hold);
    }
    const done = { ...layout, missing: new Map<string, RenderedShard>() };
    this.#last = { shards: snapshot.shards, basis: this.#basisOf(snapshot), layout: done };
    for (const name of before) this.#spares.add(name);
    await this.#removeSurplus(signal);
    return { mapRevision, shards: missing.size, bytes };
  }

  /**
   * Returns the lines that an earlier leader published. A new leader starts from them. Only shards whose hash matches
   * the index are read: an edited text is not a decision of a leader.
   */
  loadLines(): Map<string, LoadedLine> {
    const lines = new Map<string, LoadedLine>();
    for (const { name, revision } of this.loadIndex()?.shards ?? []) {
      const text = this.#store.shard(name);
      if (text === undefined || !isNamedHash(shortHash(text), revision)) continue;
      const orders = new Map<string, number>();
      const holders = new Map<string, string>();
      for (const [host, addresses] of parseHosts(text, orders, holders)) {
        lines.set(host, { addresses, order: orders.get(host) ?? 0, holder: holders.get(host) });
      }
    }
    return lines;
  }

  /** Returns the published index. Undefined if it is missing or cannot be parsed. */
  loadIndex(): MapIndex | undefined {
    return readable(this.#index());
  }

  /** Returns the targets' addresses that an earlier leader published. */
  loadTargets(): readonly TargetAddress[] {
    return readable(this.#state())?.targets ?? [];
  }

  #index(): MapIndex | Reason | undefined {
    const text = this.#store.index();
    return text === undefined ? undefined : this.#parseIndex(text);
  }

  #state(): MapState | Reason | undefined {
    const text = this.#store.state()?.text;
    return text === undefined ? undefined : this.#parseState(text);
  }

  #hasState({ state, hold }: Layout): boolean {
    const current = this.#store.state();
    return current?.text === state && current.hold === hold;
  }

  /** The shards that the index names. */
  #named(): Set<string> {
    return new Set(this.loadIndex()?.shards.map(({ name }) => name));
  }

  #layout(snapshot: Snapshot): Layout {
    const { shards, targets, hold } = snapshot;
    const basis = this.#basisOf(snapshot);
    const last = this.#last;
    const same = last?.shards === shards && basis.every((text, at) => text === last.basis[at]);
    if (same && last.layout.names.every((name, at) => this.#holds(name, shards[at]))) return last.layout;
    const { names, missing } = this.#assign(shards);
    const entries = shards.map(({ shardHash }, at) => ({ name: names[at] ?? "", revision: shardHash }));
    const mapRevision = mapRevisionOf(shards);
    const layout = {
      mapRevision,
      names,
      missing,
      index: renderIndex({ revision: mapRevision, shards: entries }),
      state: renderState({ targets }),
      hold: hold && renderHold(hold),
    };
    this.#last = { shards, basis, layout };
    return layout;
  }

  /** The inputs of a layout other than the shards. */
  #basisOf({ targets, hold }: Snapshot): readonly (string | undefined)[] {
    return [this.#store.index(), JSON.stringify([targets, hold])];
  }

  /**
   * Returns the name of each shard. It is the name under which the index already has its text, otherwise a free name.
   */
  #assign(shards: readonly RenderedShard[]): Pick<Layout, "names" | "missing"> {
    const named = this.#named();
    const free = this.#freeNames(named);
    const nameOf = new Map<string, string>();
    for (const { name } of this.loadIndex()?.shards ?? []) nameOf.set(this.#hashOf(name), name);
    const missing = new Map<string, RenderedShard>();
    const names: string[] = [];
    for (const shard of shards) {
      const known = nameOf.get(shard.shardHash);
      // Equal texts share a name. Only shards without a line have equal texts.
      const isThere = known !== undefined && (missing.has(known) || this.#holds(known, shard));
      const name = isThere ? known : free.next().value;
      if (name === undefined) throw new RangeError("no free name for a shard");
      names.push(name);
      if (isThere) continue;
      missing.set(name, shard);
      nameOf.set(shard.shardHash, name);
    }
    return { names, missing };
  }

  /** Yields spares first. A new shard beside them would cause the removal of a spare. */
  *#freeNames(named: ReadonlySet<string>): Generator<string, undefined> {
    const spares = new Set(this.#spares.values().filter((name) => !named.has(name) && this.#isSpare(name)));
    yield* spares;
    yield* SHARD_NAMES.values().filter((name) => !named.has(name) && !spares.has(name));
  }

  /** Whether the store has, under a name that the index does not name, the text that we wrote there. */
  #isSpare(name: string): boolean {
    return this.#spares.has(name) && this.#verified.get(name)?.text === this.#store.shard(name);
  }

  /** Whether the store has the shard's text under this name. */
  #holds(name: string, shard: RenderedShard | undefined): boolean {
    const text = this.#store.shard(name);
    if (text === undefined || shard === undefined) return false;
    const verified = this.#verified.get(name);
    if (verified?.shardHash === shard.shardHash && verified.text === text) {
      // Comparing a string with itself is free. Comparing it with an equal one (from the API server's response) takes
      // time for its length. So keep the store's string.
      verified.text = text;
      return true;
    }
    if (text !== shard.text) return false;
    this.#verified.set(name, { text, shardHash: shard.shardHash });
    return true;
  }

  /** Returns the hash of the store's text under a name. */
  #hashOf(name: string): string {
    const text = this.#store.shard(name);
    if (text === undefined) return "";
    const verified = this.#verified.get(name);
    return verified?.text === text ? verified.shardHash : shortHash(text);
  }

  /** Shards that the index does not name, except a few of our own. */
  #surplus(): string[] {
    const named = this.#named();
    let spares = 0;
    return this.#store.shardNames().filter((name) => {
      if (named.has(name)) return false;
      const isSpare = this.#isSpare(name);
      if (isSpare) spares += 1;
      return !isSpare || spares > MAX_SPARES;
    });
  }

  async #removeSurplus(signal: AbortSignal): Promise<void> {
    await inParallel(this.#surplus(), signal, (name) => this.#store.removeShard(name));
  }
}

/** Writes several items in parallel. A first publication has many shards, and each write waits for etcd's disk. */
async function inParallel<T>(
  items: readonly T[],
  signal: AbortSignal,
  write: (item: T) => Promise<void>,
): Promise<void> {
  for (let index = 0; index < items.length; index += PARALLEL_WRITES) {
    signal.throwIfAborted();
    await Promise.all(items.slice(index, index + PARALLEL_WRITES).map(write));
  }
}

function readable<T extends object>(part: T | Reason | undefined): T | undefined {
  return part === undefined || "code" in part ? undefined : part;
}

/** Parses a text only if it differs from the last one. */
function memoized<T>(parse: (text: string) => T): (text: string) => T {
  let last: { readonly text: string; readonly value: T } | undefined;
  return (text) => {
    if (last?.text !== text) last = { text, value: parse(text) };
    return last.value;
  };
}
