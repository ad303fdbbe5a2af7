import { shortHash, spreadHash } from "#hostmap/hash.ts";
import { plannedNameOf } from "#hostmap/wildcards.ts";

// The map, divided into objects for external-dns. A name stays in its part while the number of parts stays the same,
// so that a change of one name writes one object.

/** A record: a name or wildcard, as in DNS, with its addresses. */
export interface DnsRecord {
  readonly name: string;
  readonly addresses: readonly string[];
}

/** What one object holds. */
export interface Part {
  /** Key of the part. It stays the same for the part's names while the number of parts stays the same. */
  readonly key: string;
  /** Preferred index in the pool of object names, which is used if it is free. */
  readonly preferred: number;
  readonly records: readonly DnsRecord[];
}

/** Limits of the parts for a kind of object. */
export interface PartLimits {
  /** Whether all records of an object have the same addresses. */
  readonly byAddresses: boolean;
  /** Maximum number of names in a part, on average. */
  readonly names: number;
  /** Maximum size of a part's records, in bytes. If there are more, those that were published first stay. */
  readonly bytes: number;
  readonly bytesOf: (record: DnsRecord) => number;
}

/** Maximum number of objects. */
export const MAX_PARTS = 512;
/**
 * The number of parts falls only if this many times fewer are needed, so that a name that comes and goes moves no
 * others.
 */
const SHRINK = 4;

/** Divides records into parts. If a map has too many, the names that were published first stay. */
export class Divider {
  readonly #limits: PartLimits;
  /** How many parts each group was divided into before. */
  readonly #counts = new Map<string, number>();

  constructor(limits: PartLimits) {
    this.#limits = limits;
  }

  /**
   * Remembers a part that an earlier process wrote, so that its names do not move because fewer parts are enough now.
   */
  remember(key: string): void {
    const [group = "", count] = key.split("/");
    if (count !== undefined) this.#counts.set(group, Math.max(1, Math.min(MAX_PARTS, Number(count) || 1)));
  }

  divide(records: readonly DnsRecord[]): { readonly parts: readonly Part[]; readonly leftOut: number } {
    const groups = Map.groupBy(records, ({ addresses }) =>
      this.#limits.byAddresses ? shortHash(addresses.join()) : "all",
    );
    const parts = [...groups].flatMap(([group, all]) => this.#divideGroup(group, all));
    for (const group of this.#counts.keys()) if (!groups.has(group)) this.#counts.delete(group);
    const kept = parts.slice(0, MAX_PARTS);
    const total = kept.reduce((sum, part) => sum + part.records.length, 0);
    return { parts: kept, leftOut: records.length - total };
  }

  #divideGroup(group: string, records: readonly DnsRecord[]): Part[] {
    const count = this.#countFor(group, records.length);
    this.#counts.set(group, count);
    const base = group === "all" ? 0 : spreadHash(group);
    const shards = Map.groupBy(records, ({ name }) => spreadHash(name) % count);
    return [...shards].map(([shard, all]) => ({
      key: `${group}/${count}/${shard}`,
      preferred: (base + shard) % MAX_PARTS,
      records: this.#fitting(all),
    }));
  }

  /** The number of parts, a power of two: if it doubles, half of the names of each part move to a new one. */
  #countFor(group: string, names: number): number {
    const needed = Math.min(MAX_PARTS, 2 ** Math.ceil(Math.log2(Math.max(1, names / this.#limits.names))));
    const before = this.#counts.get(group) ?? 1;
    return needed < before && needed * SHRINK > before ? before : needed;
  }

  #fitting(records: readonly DnsRecord[]): DnsRecord[] {
    const { bytes, bytesOf } = this.#limits;
    let left = bytes;
    return records.filter((record) => {
      left -= bytesOf(record);
      return left >= 0;
    });
  }
}

/** The map's names as DNS records. Both kinds of wildcards become `*.x`, and the one that comes first counts. */
export function recordsOf(entries: Iterable<readonly [name: string, addresses: readonly string[]]>): DnsRecord[] {
  const records = new Map<string, DnsRecord>();
  for (const [mapped, addresses] of entries) {
    const name = plannedNameOf(mapped);
    if (!records.has(name)) records.set(name, { name, addresses });
  }
  return [...records.values()];
}
