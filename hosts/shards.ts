import { shortHash, spreadHash } from "./hash.ts";
import { compareNames } from "./names.ts";
import { type HostLine, renderedBytes, renderHosts } from "./render.ts";

/** A shard as it is published: text of at most `MAX_SHARD_BYTES`, and the hash of that text. */
export interface RenderedShard {
  readonly index: number;
  readonly text: string;
  readonly revision: string;
}

/** Hard limit of one shard. A ConfigMap may hold 1 MiB; a quarter leaves room for metadata and for etcd's 1.5 MiB request. */
export const MAX_SHARD_BYTES = 256 * 1024;
/**
 * Shards are doubled above this average: what a change rewrites stays near 32 KiB at any size of the map (10,000 names in one
 * object: 38 ms and half a megabyte of etcd history a change, measured), and a small install has one shard.
 */
const SPLIT_BYTES = 32 * 1024;
/** ... and halved below this one. Far from the other bound, so that a map at the edge does not flap. */
const JOIN_BYTES = 8 * 1024;
/** RBAC names every shard (`resourceNames`), so their number has a bound: 64 x 256 KiB hold half a million ordinary names. */
export const MAX_SHARDS = 64;

interface Shard {
  readonly lines: Map<string, HostLine>;
  bytes: number;
  rendered: RenderedShard | undefined;
}

/** The published names, spread over shards by hash; a change renders the shards it touches and no other. */
export class Shards {
  #shards: Shard[] = [emptyShard()];
  #bytes = 0;
  #overflowing = new Map<string, HostLine>();

  /** Sets what a name leads to; no addresses removes it. */
  set(name: string, addresses: readonly string[]): void {
    this.#overflowing.delete(name);
    this.#put(name, addresses);
  }

  /** Names that found no room: their shard is full and there are no more shards to split into. */
  get overflowing(): ReadonlyMap<string, HostLine> {
    return this.#overflowing;
  }

  /** How many shards there are; their indices are 0 to count - 1. */
  get count(): number {
    return this.#shards.length;
  }

  /** Settles the number of shards, renders what changed, and gives all of them in order. */
  render(): readonly RenderedShard[] {
    this.#resize();
    return this.#shards.map((shard, index) => {
      shard.rendered ??= renderShard(index, shard);
      return shard.rendered;
    });
  }

  #put(name: string, addresses: readonly string[]): void {
    const shard = this.#shardOf(name);
    const before = shard.lines.get(name);
    if (before !== undefined) {
      const size = renderedBytes(before);
      shard.bytes -= size;
      this.#bytes -= size;
      shard.lines.delete(name);
      shard.rendered = undefined;
    }
    if (addresses.length === 0) return;
    const line = { name, addresses };
    const size = renderedBytes(line);
    shard.lines.set(name, line);
    shard.bytes += size;
    this.#bytes += size;
    shard.rendered = undefined;
  }

  #shardOf(name: string): Shard {
    // A power of two, so that doubling splits each shard in two and moves nothing else.
    const shard = this.#shards[spreadHash(name) % this.#shards.length];
    if (shard === undefined) throw new RangeError("a shard index out of range");
    return shard;
  }

  #resize(): void {
    let count = this.#shards.length;
    while (count < MAX_SHARDS && this.#bytes > count * SPLIT_BYTES) count *= 2;
    while (count > 1 && this.#bytes < count * JOIN_BYTES) count /= 2;
    this.#spread(count);
    while (this.#shards.length < MAX_SHARDS && this.#shards.some((shard) => shard.bytes > MAX_SHARD_BYTES)) {
      this.#spread(this.#shards.length * 2);
    }
    for (const shard of this.#shards) this.#evict(shard);
  }

  #spread(count: number): void {
    if (count === this.#shards.length) return;
    const lines = this.#shards.flatMap((shard) => [...shard.lines.values()]);
    this.#shards = Array.from({ length: count }, emptyShard);
    this.#bytes = 0;
    for (const line of lines) this.#put(line.name, line.addresses);
  }

  /** A full shard keeps its names in order and sheds the last ones, which are reported rather than lost in silence. */
  #evict(shard: Shard): void {
    if (shard.bytes <= MAX_SHARD_BYTES) return;
    for (const line of sorted(shard).reverse()) {
      if (shard.bytes <= MAX_SHARD_BYTES) return;
      this.#put(line.name, []);
      this.#overflowing.set(line.name, line);
    }
  }
}

/** A revision of the whole: of the text of every shard, whatever order names arrived in. */
export function mapRevision(shards: readonly RenderedShard[]): string {
  return shortHash(shards.map((shard) => shard.revision).join(" "));
}

function renderShard(index: number, shard: Shard): RenderedShard {
  const text = renderHosts(sorted(shard));
  return { index, text, revision: shortHash(text) };
}

function sorted(shard: Shard): HostLine[] {
  return [...shard.lines.values()].sort((a, b) => compareNames(a.name, b.name));
}

function emptyShard(): Shard {
  return { lines: new Map(), bytes: 0, rendered: undefined };
}
