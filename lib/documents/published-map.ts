import { shortHash } from "#hostmap/hash.ts";
import { compareNames } from "#hostmap/hostnames.ts";
import { parseHosts } from "#hostmap/hosts-text.ts";
import type { PublishedMap, Reason } from "#hostmap/types.ts";
import { isWildcard } from "#hostmap/wildcards.ts";
import { isNamedHash, type MapIndex } from "./map-format.ts";

/** Whether a result is a map and not a Reason. */
export function isMap<M extends { readonly revision: string }>(result: M | Reason): result is M {
  return "revision" in result;
}

/** What every reader keeps of a shard: at least the hash of its text. */
export interface HashedShard {
  readonly shardHash: string;
}

/** A parsed shard and its mapping. */
export interface ParsedShard extends HashedShard {
  readonly entries: ReadonlyMap<string, readonly string[]>;
  /** The names of `entries` in order, without wildcards. */
  readonly names: readonly string[];
  /** When names were first published, as a sequence number. A missing name counts as 0. */
  readonly orders: ReadonlyMap<string, number>;
  /** The same names, sorted by order, then by name. */
  readonly byOrder: readonly string[];
}

/** Parses the text of one shard. Readers keep the result: a change of the map affects few shards. */
export function parseShard(text: string): ParsedShard {
  const orders = new Map<string, number>();
  return partOf(shortHash(text), parseHosts(text, orders), orders);
}

/**
 * Assembles the map from its index and shards. A Reason means that the shards do not match: a publication is in
 * progress, or something was deleted. A partial map is never used: a reader with a good map keeps that map, and a
 * reader without one waits. The cost is linear in the number of shards.
 */
export function assembleMap<P extends HashedShard, M>(
  index: MapIndex,
  shardOf: (name: string) => P | undefined,
  assemble: (revision: string, parts: readonly P[]) => M,
): M | Reason {
  const parts: P[] = [];
  for (const { name, revision } of index.shards) {
    const shard = shardOf(name);
    if (shard === undefined || !isNamedHash(shard.shardHash, revision)) return shardReason(name, shard);
    parts.push(shard);
  }
  return assemble(index.revision, parts);
}

function shardReason(name: string, shard: HashedShard | undefined): Reason {
  return shard === undefined
    ? { code: "shard-missing", text: `the shard ${name} is not there` }
    : { code: "shard-other-revision", text: `the shard ${name} has another revision than the index names` };
}

/**
 * Returns a map from entries (a hosts file, or shards). Its names do not include wildcards, because a hosts file
 * cannot contain them.
 */
export function publishedMapOf(mapRevision: string, entries: ReadonlyMap<string, readonly string[]>): PublishedMap {
  return mapOfParts(mapRevision, [partOf(mapRevision, entries)]);
}

function partOf(
  shardHash: string,
  entries: ReadonlyMap<string, readonly string[]>,
  orders: ReadonlyMap<string, number> = new Map(),
): ParsedShard {
  const names = [...entries.keys()].filter((name) => !isWildcard(name)).sort(compareNames);
  // Sort here, part by part, so that the first use of the map is not one long step. The sort is stable: names with the
  // same order stay in name order.
  const byOrder = orders.size === 0 ? names : names.toSorted((a, b) => (orders.get(a) ?? 0) - (orders.get(b) ?? 0));
  return { shardHash, entries, names, orders, byOrder };
}

/**
 * Combines parts into a map. Each name is in exactly one part, because the writer spreads the names over the shards.
 * The sorted list of all names is created on first use.
 */
export function mapOfParts(mapRevision: string, parts: readonly ParsedShard[]): PublishedMap {
  const size = parts.reduce((sum, { names }) => sum + names.length, 0);
  let merged: readonly string[] | undefined;
  let orders: ReadonlyMap<string, number> | undefined;
  const allNames = () => {
    merged ??= parts.flatMap(({ names }) => names).sort(compareNames);
    return merged;
  };
  return {
    revision: mapRevision,
    get names() {
      return allNames();
    },
    size,
    first: (count) => (count >= size ? allNames() : firstOf(parts, count).sort(compareNames)),
    orderOf(name) {
      orders ??= ordersOf(parts);
      return orders.get(name) ?? 0;
    },
    addressesOf(name) {
      for (const { entries } of parts) {
        const addresses = entries.get(name);
        if (addresses !== undefined) return addresses;
      }
      return undefined;
    },
  };
}

function ordersOf(parts: readonly ParsedShard[]): ReadonlyMap<string, number> {
  const orders = new Map<string, number>();
  for (const part of parts) for (const [name, order] of part.orders) orders.set(name, order);
  return orders;
}

/** Iterates over the names of a part. `name` is undefined after the last one. */
class Head {
  readonly #part: ParsedShard;
  #at = 0;
  name: string | undefined;
  order = 0;

  constructor(part: ParsedShard) {
    this.#part = part;
    this.#look();
  }

  advance(): void {
    this.#at += 1;
    this.#look();
  }

  #look(): void {
    this.name = this.#part.byOrder[this.#at];
    this.order = this.name === undefined ? 0 : (this.#part.orders.get(this.name) ?? 0);
  }
}

/** Returns the `count` names with the lowest orders, then by name. It merges the parts. */
function firstOf(parts: readonly ParsedShard[], count: number): string[] {
  const heads = parts.map((part) => new Head(part));
  const first: string[] = [];
  while (first.length < count) {
    let least: Head | undefined;
    for (const head of heads) if (comesBefore(head, least)) least = head;
    if (least?.name === undefined) break;
    first.push(least.name);
    least.advance();
  }
  return first;
}

function comesBefore(head: Head, least: Head | undefined): boolean {
  if (head.name === undefined || least?.name === undefined) return head.name !== undefined;
  return head.order === least.order ? head.name < least.name : head.order < least.order;
}
