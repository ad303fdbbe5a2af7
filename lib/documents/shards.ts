import { shortHash, spreadHash } from "#hostmap/hash.ts";
import { compareNames } from "#hostmap/hostnames.ts";
import { type HostLine, renderHosts } from "#hostmap/hosts-text.ts";

/** A published shard: text of at most `MAX_SHARD_BYTES`, and the hash of that text. */
export interface RenderedShard {
  readonly index: number;
  readonly text: string;
  readonly shardHash: string;
}

/**
 * Hard limit of one shard. A ConfigMap may hold 1 MiB. A quarter of that leaves room for metadata and for etcd's 1.5
 * MiB request.
 */
export const MAX_SHARD_BYTES = 256 * 1024;
/**
 * The number of shards is doubled above this average. A change sends its shard and the index of all shards to every
 * reader. At 50,000 names, a change sends 9.4 KB with 512 shards, 11.6 KB with 256, and 19.3 KB with 128 (JSON with
 * metadata). A small install has one shard.
 */
const SPLIT_BYTES = 8 * 1024;
/**
 * The number of shards is halved below this average. It is far from `SPLIT_BYTES`, so that small changes do not cause
 * alternating splits and joins.
 */
const JOIN_BYTES = 2 * 1024;
/**
 * A tenant can choose names that share a shard. Two shards stay separate if they would have more bytes than this
 * together.
 */
const JOINED_BYTES = MAX_SHARD_BYTES / 2;
/**
 * Maximum number of shards. RBAC names every shard (`resourceNames`). 512 x 256 KiB hold millions of ordinary names.
 */
export const MAX_SHARDS = 512;
/**
 * Up to this many changes since the last rendering are inserted one by one. With more, the shard is sorted and
 * rendered again.
 */
const MAX_SPLICES = 32;

/** A name with its text in the shard. The text is ASCII, so `text.length` is its size in bytes. */
interface Entry extends HostLine {
  readonly order: number;
  readonly text: string;
}

/** The published names, spread over shards by hash. A change renders only the shards that it affects. */
export class Shards {
  #shards: Shard[] = [new Shard()];
  #bytes = 0;
  #overflowing = new Map<string, HostLine>();
  #rendered: readonly RenderedShard[] = [];

  /**
   * Sets the addresses of a name, when it was first published (a sequence number; 0: unknown), and the namespace that
   * has it. Without addresses, removes the name.
   */
  set(name: string, addresses: readonly string[], order = 0, holder?: string): void {
    this.#overflowing.delete(name);
    this.#put({ name, addresses, order, holder });
  }

  /** Names without room: their shard is full, and the number of shards is at its limit. */
  get overflowing(): ReadonlyMap<string, HostLine> {
    return this.#overflowing;
  }

  /** Number of shards. Their indices are 0 to count - 1. */
  get count(): number {
    return this.#shards.length;
  }

  /**
   * Adjusts the number of shards and renders the changes. Returns all shards in order. The array is the same if
   * nothing changed.
   */
  render(): readonly RenderedShard[] {
    this.#readmit();
    this.#resize();
    for (const shard of this.#shards) this.#evict(shard);
    const rendered = this.#shards.map((shard, index) => shard.render(index));
    const same = rendered.length === this.#rendered.length && rendered.every((shard, i) => shard === this.#rendered[i]);
    if (!same) this.#rendered = rendered;
    return this.#rendered;
  }

  #put(line: HostLine): void {
    const shard = this.#shardOf(line.name);
    const before = shard.bytes;
    shard.set(line);
    this.#bytes += shard.bytes - before;
  }

  #shardOf(name: string): Shard {
    // The number of shards is a power of two, so that doubling splits each shard in two and moves nothing else.
    const shard = this.#shards[spreadHash(name) % this.#shards.length];
    if (shard === undefined) throw new RangeError("a shard index out of range");
    return shard;
  }

  #resize(): void {
    let count = this.#shards.length;
    while (count < MAX_SHARDS && this.#bytes > count * SPLIT_BYTES) count *= 2;
    this.#spread(count);
    while (this.#mayJoin()) this.#spread(this.#shards.length / 2);
    while (this.#shards.length < MAX_SHARDS && this.#shards.some((shard) => shard.bytes > MAX_SHARD_BYTES)) {
      this.#spread(this.#shards.length * 2);
    }
  }

  #mayJoin(): boolean {
    const half = this.#shards.length / 2;
    if (half < 1 || this.#bytes >= this.#shards.length * JOIN_BYTES) return false;
    const others = this.#shards.slice(half);
    return others.every((other, index) => other.bytes + (this.#shards[index]?.bytes ?? 0) <= JOINED_BYTES);
  }

  #spread(count: number): void {
    if (count === this.#shards.length) return;
    const before = this.#shards;
    this.#shards = Array.from({ length: count }, () => new Shard());
    for (const shard of before) for (const line of shard.lines()) this.#shardOf(line.name).adopt(line);
  }

  /**
   * Adds names without room again if their shard has changed. So the published names depend only on the names that
   * are set.
   */
  #readmit(): void {
    for (const line of this.#overflowing.values()) {
      if (!this.#shardOf(line.name).isRendered) this.set(line.name, line.addresses, line.order, line.holder);
    }
  }

  /**
   * Removes the longest lines of a full shard, of equally long ones the latest first, and reports them. A quota limits
   * the number of a tenant's names. So a tenant needs long names to fill a shard, and loses these before others lose
   * theirs.
   */
  #evict(shard: Shard): void {
    if (shard.bytes <= MAX_SHARD_BYTES) return;
    const longestFirst = [...shard.lines()].sort(
      (a, b) => b.text.length - a.text.length || b.order - a.order || compareNames(b.name, a.name),
    );
    for (const line of longestFirst) {
      if (shard.bytes <= MAX_SHARD_BYTES) return;
      this.#put({ name: line.name, addresses: [] });
      this.#overflowing.set(line.name, line);
    }
  }
}

/** Returns the revision of the map: a hash of all shards. The order in which names were added does not affect it. */
export function mapRevisionOf(shards: readonly RenderedShard[]): string {
  return shortHash(shards.map((shard) => shard.shardHash).join(" "));
}

class Shard {
  bytes = 0;
  readonly #lines = new Map<string, Entry>();
  /** The lines in name order and their text. Each change updates them. Undefined if rendering them again is cheaper. */
  #kept: { readonly order: Entry[]; text: string } | undefined;
  #changes = 0;
  #rendered: RenderedShard | undefined;

  lines(): Iterable<Entry> {
    return this.#lines.values();
  }

  /** False if a line has changed since the last rendering. */
  get isRendered(): boolean {
    return this.#rendered !== undefined;
  }

  set(line: HostLine): void {
    const { name, order = 0 } = line;
    const before = this.#lines.get(name);
    const text = renderHosts([line]);
    if (text === (before?.text ?? "")) return;
    this.#rendered = undefined;
    this.bytes += text.length - (before?.text.length ?? 0);
    const entry = { ...line, order, text };
    if (text === "") this.#lines.delete(name);
    else this.#lines.set(name, entry);
    this.#changes += 1;
    if (this.#changes > MAX_SPLICES) this.#kept = undefined;
    else if (this.#kept !== undefined) splice(this.#kept, before, entry);
  }

  /** Adds an unchanged line of another shard. */
  adopt(line: Entry): void {
    this.#lines.set(line.name, line);
    this.bytes += line.text.length;
  }

  render(index: number): RenderedShard {
    if (this.#rendered !== undefined) return this.#rendered;
    this.#kept ??= keep(this.#lines.values());
    this.#changes = 0;
    const { text } = this.#kept;
    this.#rendered = { index, text, shardHash: shortHash(text) };
    return this.#rendered;
  }
}

function keep(lines: Iterable<Entry>): { order: Entry[]; text: string } {
  const order = [...lines].sort((a, b) => compareNames(a.name, b.name));
  return { order, text: order.map(({ text }) => text).join("") };
}

/** Replaces `before` by `after`, or inserts `after` if `before` is undefined. An empty text removes the line. */
function splice(kept: { readonly order: Entry[]; text: string }, before: Entry | undefined, after: Entry): void {
  const { order, text } = kept;
  const position = positionOf(after.name, order);
  let start = 0;
  for (let index = 0; index < position; index += 1) start += order[index]?.text.length ?? 0;
  order.splice(position, before === undefined ? 0 : 1, ...(after.text === "" ? [] : [after]));
  kept.text = text.slice(0, start) + after.text + text.slice(start + (before?.text.length ?? 0));
}

/** Returns the position of a name among lines in name order, or the position where it would be inserted. */
function positionOf(name: string, order: readonly Entry[]): number {
  let low = 0;
  let high = order.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (compareNames(order[middle]?.name ?? "", name) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
