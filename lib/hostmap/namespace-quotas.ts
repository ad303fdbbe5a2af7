import { beyondQuota } from "./claim-policy.ts";
import { compareClaims, type IndexedClaim, oldest } from "./conflict.ts";
import { compareNames } from "./hostnames.ts";
import { addTo, getOrAdd, removeFrom } from "./multi-map.ts";
import type { Reason } from "./types.ts";

/** Higher than every order. It is finite, because the difference of two infinities is not a number. */
export const UNPUBLISHED = Number.MAX_SAFE_INTEGER;

/**
 * The names that the objects of a namespace may claim. Over quota, published names stay, in the order of their
 * publication. Names of the oldest objects get the rest.
 */
export class NamespaceQuotas {
  readonly #max: number;
  /** When a namespace published a name; `UNPUBLISHED`: it did not. */
  readonly #orderIn: (namespace: string, name: string) => number;
  /** Namespace -> name -> claims of that namespace. */
  readonly #claims = new Map<string, Map<string, IndexedClaim[]>>();
  /** Namespaces over their quota, with the names that are within the quota. */
  readonly #within = new Map<string, ReadonlySet<string>>();
  #dirty = new Set<string>();

  constructor(max: number, orderIn: (namespace: string, name: string) => number) {
    this.#max = max;
    this.#orderIn = orderIn;
  }

  add(indexed: IndexedClaim): void {
    const { namespace } = indexed.claim.from;
    const names = getOrAdd(this.#claims, namespace, () => new Map<string, IndexedClaim[]>());
    addTo(names, indexed.name, indexed);
    this.#markOver(namespace);
  }

  remove(indexed: IndexedClaim): void {
    const { namespace } = indexed.claim.from;
    const names = this.#claims.get(namespace);
    if (names !== undefined) {
      removeFrom(names, indexed.name, indexed);
      if (names.size === 0) this.#claims.delete(namespace);
    }
    this.#markOver(namespace);
  }

  isWithin(namespace: string, name: string): boolean {
    return this.#within.get(namespace)?.has(name) ?? true;
  }

  reasonFor(namespace: string): Reason {
    return beyondQuota(namespace, this.#max);
  }

  /** Applies all changes. Returns the names that are within a quota now and were not before, or the other way round. */
  apply(): string[] {
    const changed = [...this.#dirty].flatMap((namespace) => this.#apply(namespace));
    this.#dirty = new Set();
    return changed;
  }

  #apply(namespace: string): string[] {
    const names = this.#claims.get(namespace);
    const before = this.#within.get(namespace);
    const after = names !== undefined && names.size > this.#max ? this.#choose(namespace, names) : undefined;
    if (after === undefined) this.#within.delete(namespace);
    else this.#within.set(namespace, after);
    return [...(names?.keys() ?? [])].filter((name) => (before?.has(name) ?? true) !== (after?.has(name) ?? true));
  }

  #choose(namespace: string, names: ReadonlyMap<string, readonly IndexedClaim[]>): ReadonlySet<string> {
    const ranked = [...names.values()]
      .map(oldest)
      .filter((indexed) => indexed !== undefined)
      .map((indexed) => ({ indexed, order: this.#orderIn(namespace, indexed.name) }))
      .sort(
        (a, b) =>
          a.order - b.order || compareClaims(a.indexed, b.indexed) || compareNames(a.indexed.name, b.indexed.name),
      );
    const published = ranked.filter(({ order }) => order < UNPUBLISHED).length;
    return new Set(ranked.slice(0, Math.max(this.#max, published)).map(({ indexed }) => indexed.name));
  }

  #markOver(namespace: string): void {
    const size = this.#claims.get(namespace)?.size ?? 0;
    if (size > this.#max || this.#within.has(namespace)) this.#dirty.add(namespace);
  }
}
