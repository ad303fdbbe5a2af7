import { shortHash } from "#hostmap/hash.ts";
import { parseHosts } from "#hostmap/hosts-text.ts";
import type { RemovalHold } from "#hostmap/removal-guard.ts";
import type { Reason, TargetAddress } from "#hostmap/types.ts";
import { SwitchbackError, statusOf } from "#lib/errors/errors.ts";
import {
  INDEX_VERSION,
  isNamedHash,
  type MapIndex,
  parseCompactIndex,
  parseIndex,
  renderCompactIndex,
  renderIndex,
  SHARD_NAMES,
} from "./map-format.ts";
import type { MapStore } from "./map-store.ts";
import { renderHold } from "./removal-hold.ts";
import { mapRevisionOf, type RenderedShard } from "./shards.ts";

/** What a publication did. */
export interface Publication {
  readonly mapRevision: string;
  /** Shards that were written, and the bytes of them and of the compact index: what each reader receives. */
  readonly shards: number;
  readonly bytes: number;
}

/** A leader's right to write. */
export interface WriteTerm {
  /** Aborts when the term ends. */
  readonly signal: AbortSignal;
  /** Whether the term lasts, by the clock. A process that was stopped and continued sees its end here before any timer fires. */
  readonly leading: () => boolean;
}

/** How many objects are written in parallel. */
const PARALLEL_WRITES = 4;
/** Shards that are no longer named stay for the next publications to write to: a deletion sends their text to every reader. */
const MAX_SPARES = 8;
/**
 * How long the index of format 0 may name older shards than the compact one, milliseconds. It is for people, and for a release before
 * that has nothing else: no reader of this release waits for it.
 */
const LATE_INDEX_MS = 5_000;

/** What is to be published. */
export interface Snapshot {
  readonly shards: readonly RenderedShard[];
  readonly targets: readonly TargetAddress[];
  readonly hold: RemovalHold | undefined;
}

/** What the store has to hold for a snapshot. */
interface Layout {
  readonly mapRevision: string;
  /** The names of all shards, in their order. */
  readonly names: readonly string[];
  /** Shards that are not there yet, by the free names for them. */
  readonly missing: ReadonlyMap<string, RenderedShard>;
  readonly compact: string;
  readonly index: string;
  readonly targets: string;
  readonly hold: string | undefined;
}

/** The index of format 0 as this writer wrote it last in its term. */
interface WrittenIndex {
  readonly text: string;
  readonly targets: string;
  readonly at: number;
}

/**
 * Publishes snapshots. A shard that an index names is never written: its new text goes to a free name, then the compact index
 * names it, then the index of format 0. So after each single write every index names shards that are there. The index of format 0
 * may come later, with what changed until then; only targets, a hold and its mark as superseded are always written at once.
 */
export class MapWriter {
  readonly #store: MapStore;
  readonly #now: () => number;
  /** By shard: a text of the store that was found equal to the one with this hash. */
  readonly #verified = new Map<string, { text: string; readonly shardHash: string }>();
  readonly #parseCompact = memoized(parseCompactIndex);
  readonly #parseIndex = memoized(parseIndex);
  /** Shards that this writer wrote and that no index names any more. */
  readonly #spares = new Set<string>();
  #last:
    | {
        readonly shards: readonly RenderedShard[];
        readonly basis: readonly (string | undefined)[];
        readonly layout: Layout;
      }
    | undefined;

  #writtenIndex: WrittenIndex | undefined;

  /** `now` is in milliseconds, of a clock that does not jump. */
  constructor(store: MapStore, now: () => number) {
    this.#store = store;
    this.#now = now;
  }

  /**
   * Begins a term; nothing else may be written in it before. Writes both indexes as they are, with a new mark, so that a write of
   * a former leader that is still under way is refused; then removes what no index names, for the same reason. Throws
   * `data-corrupt` for a map of an unknown version: it is left as it is.
   */
  async begin(term: WriteTerm): Promise<void> {
    const indexes = [this.#compact(), this.#index()];
    const unknown = indexes.find((index) => index && "code" in index && index.code === INDEX_VERSION) as
      | Reason
      | undefined;
    if (unknown !== undefined && this.loadIndex() === undefined) {
      throw new SwitchbackError("data-corrupt", `the published map is left as it is: ${unknown.text}`);
    }
    this.#spares.clear();
    this.#writtenIndex = undefined;
    this.#store.beginTerm();
    await this.#claim(term);
    await this.#removeSurplus(term);
  }

  /** Whether the store differs from the snapshot: after a change of ours, or because somebody edited it. A late index is no difference. */
  isStale(snapshot: Snapshot): boolean {
    const layout = this.#layout(snapshot);
    return (
      layout === undefined ||
      layout.missing.size > 0 ||
      this.#store.compactIndex() !== layout.compact ||
      (!this.#hasIndex(layout, true) && !this.#mayBeLate(layout)) ||
      this.#surplus().length > 0
    );
  }

  /** Writes what differs. `term` stops between writes: a former leader must not continue. */
  async publish(snapshot: Snapshot, term: WriteTerm): Promise<Publication> {
    const layout = await this.#writableLayout(snapshot, term);
    const { mapRevision, missing, compact } = layout;
    const before = this.#named();
    await inParallel([...missing], term, async ([name, shard]) => {
      await this.#store.writeShard(name, shard.text);
      this.#verified.set(name, { text: shard.text, shardHash: shard.shardHash });
    });
    let bytes = missing.values().reduce((sum, { text }) => sum + text.length, 0);
    const changed = this.#store.compactIndex() !== compact;
    const superseded = !changed || (await this.#writeCompactIndex(compact, term));
    if (changed) bytes += compact.length;
    const isLate = superseded && this.#mayBeLate(layout) && !this.#isIndexDue();
    if (!isLate) await this.#writeIndex(layout, superseded, term);
    const done = { ...layout, missing: new Map<string, RenderedShard>() };
    this.#last = { shards: snapshot.shards, basis: this.#basisOf(snapshot), layout: done };
    for (const name of before) this.#spares.add(name);
    await this.#removeSurplus(term);
    return { mapRevision, shards: missing.size, bytes };
  }

  /** When the index of format 0 is to be written, if it is late; undefined: it is not. */
  get indexDueAt(): number | undefined {
    const { layout } = this.#last ?? {};
    if (layout === undefined || this.#hasIndex(layout, true) || !this.#mayBeLate(layout)) return undefined;
    return (this.#writtenIndex?.at ?? 0) + LATE_INDEX_MS;
  }

  /** Writes a late index that is due. Nothing else may differ from the last publication. */
  async writeDueIndex(term: WriteTerm): Promise<void> {
    const last = this.#last;
    if (last === undefined || this.indexDueAt === undefined || !this.#isIndexDue()) return;
    const before = this.#named();
    await this.#writeIndex(last.layout, true, term);
    this.#last = { ...last, basis: last.basis.with(1, last.layout.index) };
    for (const name of before) this.#spares.add(name);
    await this.#removeSurplus(term);
  }

  /**
   * The lines that an earlier leader published, from which a new leader starts. Only shards whose hash matches the index are
   * read: a text that somebody edited is not what a leader decided. `orders` receives when names were first published.
   */
  loadLines(orders?: Map<string, number>): Map<string, readonly string[]> {
    const lines = new Map<string, readonly string[]>();
    for (const { name, revision } of this.loadIndex()?.shards ?? []) {
      const text = this.#store.shard(name);
      if (text === undefined || !isNamedHash(shortHash(text), revision)) continue;
      for (const [host, addresses] of parseHosts(text, orders)) lines.set(host, addresses);
    }
    return lines;
  }

  /** The index that is in force, with the targets; undefined when there is none that can be read. */
  loadIndex(): MapIndex | undefined {
    const index = readable(this.#index());
    const compact = readable(this.#compact());
    if (compact === undefined || (index !== undefined && !this.#store.index()?.superseded)) return index;
    return { ...compact, targets: index?.targets ?? [] };
  }

  #compact(): MapIndex | Reason | undefined {
    const text = this.#store.compactIndex();
    return text === undefined ? undefined : this.#parseCompact(text);
  }

  #index(): MapIndex | Reason | undefined {
    const text = this.#store.index()?.text;
    return text === undefined ? undefined : this.#parseIndex(text);
  }

  /** Writes the index in force to both indexes. The compact one first: the other is in force until it is marked as superseded. */
  async #claim(term: WriteTerm): Promise<void> {
    const index = this.loadIndex();
    if (index === undefined) return;
    const shards = index.shards.map(({ name, revision }) => {
      // A compact index has the beginning of the hash, the release before reads all of it.
      const shardHash = this.#hashOf(name);
      return { name, revision: isNamedHash(shardHash, revision) ? shardHash : revision };
    });
    const superseded = await this.#writeCompactIndex(renderCompactIndex(index), term);
    assertLeading(term);
    await this.#store.writeIndex(renderIndex({ ...index, shards }), this.#store.index()?.hold, superseded);
  }

  /**
   * Returns whether the compact index is in force. While a chart of the release before is installed (a rollback), this controller
   * has no right to write it: all readers then follow the index of format 0, which is not marked as superseded.
   */
  async #writeCompactIndex(text: string, term: WriteTerm): Promise<boolean> {
    assertLeading(term);
    try {
      await this.#store.writeCompactIndex(text);
      return true;
    } catch (error) {
      if (statusOf(error) !== 403) throw error;
      return false;
    }
  }

  #hasIndex({ index, hold }: Layout, superseded: boolean): boolean {
    const current = this.#store.index();
    return current?.superseded === superseded && current.text === index && current.hold === hold;
  }

  async #writeIndex(layout: Layout, superseded: boolean, term: WriteTerm): Promise<void> {
    const { index, targets, hold } = layout;
    if (!this.#hasIndex(layout, superseded)) {
      assertLeading(term);
      await this.#store.writeIndex(index, hold, superseded);
    }
    this.#writtenIndex = { text: index, targets, at: this.#now() };
  }

  /** Whether the index of format 0 is as this writer left it. */
  get #isIndexOurs(): boolean {
    const current = this.#store.index();
    return current?.superseded === true && current.text === this.#writtenIndex?.text;
  }

  /** Whether the index of format 0 differs from the layout's in its shards alone, and those it names are there. */
  #mayBeLate({ targets, hold }: Layout): boolean {
    if (!this.#isIndexOurs || this.#writtenIndex?.targets !== targets) return false;
    const shards = readable(this.#index())?.shards ?? [];
    return (
      this.#store.index()?.hold === hold &&
      shards.every(({ name, revision }) => isNamedHash(this.#hashOf(name), revision))
    );
  }

  /** Also when as many shards would no longer be named as can stay as spares. */
  #isIndexDue(): boolean {
    const { at = Number.NEGATIVE_INFINITY } = this.#writtenIndex ?? {};
    const named = new Set(readable(this.#compact())?.shards.map(({ name }) => name));
    const late = readable(this.#index())?.shards.filter(({ name }) => !named.has(name)) ?? [];
    return this.#now() - at >= LATE_INDEX_MS || late.length >= MAX_SPARES;
  }

  /** The layout of a snapshot once both indexes name the same shards, unless one is late: they do not after a publication that ended between them. */
  async #writableLayout(snapshot: Snapshot, term: WriteTerm): Promise<Layout> {
    const found = this.#agree() || this.#isIndexOurs ? this.#layout(snapshot) : undefined;
    if (found !== undefined) return found;
    await this.#claim(term);
    const layout = this.#layout(snapshot);
    if (layout === undefined) throw new RangeError("no free name for a shard");
    return layout;
  }

  #agree(): boolean {
    const names = [this.#compact(), this.#index()].map((index) =>
      readable(index)
        ?.shards.map(({ name }) => name)
        .join(),
    );
    return names[0] === names[1];
  }

  /** The shards that an index names. */
  #named(): Set<string> {
    const indexes = [this.#compact(), this.#index()].flatMap((index) => readable(index) ?? []);
    return new Set(indexes.flatMap(({ shards }) => shards.map(({ name }) => name)));
  }

  /** Undefined: there are too few free names until both indexes name the same shards. */
  #layout(snapshot: Snapshot): Layout | undefined {
    const { shards, targets, hold } = snapshot;
    const basis = this.#basisOf(snapshot);
    const last = this.#last;
    const same = last?.shards === shards && basis.every((text, at) => text === last.basis[at]);
    if (same && last.layout.names.every((name, at) => this.#holds(name, shards[at]))) return last.layout;
    const assigned = this.#assign(shards);
    if (assigned === undefined) return undefined;
    const { names, missing } = assigned;
    const entries = shards.map(({ shardHash }, at) => ({ name: names[at] ?? "", revision: shardHash }));
    const mapRevision = mapRevisionOf(shards);
    const index: MapIndex = { revision: mapRevision, targets, shards: entries };
    const texts = { compact: renderCompactIndex(index), index: renderIndex(index) };
    const of = { targets: JSON.stringify(targets), hold: hold && renderHold(hold) };
    const layout = { mapRevision, names, missing, ...texts, ...of };
    this.#last = { shards, basis, layout };
    return layout;
  }

  /** What a layout depends on besides the shards. */
  #basisOf({ targets, hold }: Snapshot): readonly (string | undefined)[] {
    return [this.#store.compactIndex(), this.#store.index()?.text, JSON.stringify([targets, hold])];
  }

  /** The name of each shard: the one under which the index has its text already, otherwise the lowest that no index names. */
  #assign(shards: readonly RenderedShard[]): Pick<Layout, "names" | "missing"> | undefined {
    const named = this.#named();
    const free = SHARD_NAMES.values().filter((name) => !named.has(name));
    const nameOf = new Map<string, string>();
    for (const { name } of this.loadIndex()?.shards ?? []) nameOf.set(this.#hashOf(name), name);
    const missing = new Map<string, RenderedShard>();
    const names: string[] = [];
    for (const shard of shards) {
      const known = nameOf.get(shard.shardHash);
      // Equal texts share a name: shards without a line.
      const isThere = known !== undefined && (missing.has(known) || this.#holds(known, shard));
      const name = isThere ? known : free.next().value;
      if (name === undefined) return undefined;
      names.push(name);
      if (isThere) continue;
      missing.set(name, shard);
      nameOf.set(shard.shardHash, name);
    }
    return { names, missing };
  }

  /** Whether the store has the shard's text under this name. */
  #holds(name: string, shard: RenderedShard | undefined): boolean {
    const text = this.#store.shard(name);
    if (text === undefined || shard === undefined) return false;
    const verified = this.#verified.get(name);
    if (verified?.shardHash === shard.shardHash && verified.text === text) {
      // Comparing a string with itself is free. With an equal one (from the API server's response) it costs its length, so keep that.
      verified.text = text;
      return true;
    }
    if (text !== shard.text) return false;
    this.#verified.set(name, { text, shardHash: shard.shardHash });
    return true;
  }

  /** The hash of what the store has under a name. */
  #hashOf(name: string): string {
    const text = this.#store.shard(name);
    if (text === undefined) return "";
    const verified = this.#verified.get(name);
    return verified?.text === text ? verified.shardHash : shortHash(text);
  }

  /** Shards that no index names, but for a few of our own. */
  #surplus(): string[] {
    const named = this.#named();
    let spares = 0;
    return this.#store.shardNames().filter((name) => {
      if (named.has(name)) return false;
      // One that somebody edited is no spare.
      const isSpare = this.#spares.has(name) && this.#verified.get(name)?.text === this.#store.shard(name);
      if (isSpare) spares += 1;
      return !isSpare || spares > MAX_SPARES;
    });
  }

  async #removeSurplus(term: WriteTerm): Promise<void> {
    await inParallel(this.#surplus(), term, (name) => this.#store.removeShard(name));
  }
}

/** Several in parallel: a first publication has many shards, and each write waits for etcd's disk. */
async function inParallel<T>(items: readonly T[], term: WriteTerm, write: (item: T) => Promise<void>): Promise<void> {
  for (let index = 0; index < items.length; index += PARALLEL_WRITES) {
    assertLeading(term);
    await Promise.all(items.slice(index, index + PARALLEL_WRITES).map(write));
  }
}

function assertLeading({ signal, leading }: WriteTerm): void {
  signal.throwIfAborted();
  if (!leading()) throw new Error("no longer the leader");
}

function readable(index: MapIndex | Reason | undefined): MapIndex | undefined {
  return index === undefined || "code" in index ? undefined : index;
}

/** Parses a text again only if it is another than last time. */
function memoized(parse: (text: string) => MapIndex | Reason): (text: string) => MapIndex | Reason {
  let last: { readonly text: string; readonly index: MapIndex | Reason } | undefined;
  return (text) => {
    if (last?.text !== text) last = { text, index: parse(text) };
    return last.index;
  };
}
