/** A cache of up to a total weight, which evicts the least recently used entries first. */
interface Lru<V> {
  get(key: string): V | undefined;
  /** A value that is heavier than the whole budget is not kept. */
  set(key: string, value: V, weight: number): void;
}

/** `budget` and weights have the same unit, here bytes that the caller estimates. */
export function createLru<V>(budget: number): Lru<V> {
  // A Map iterates in insertion order: the first entry is the least recently used one.
  const entries = new Map<string, { readonly value: V; readonly weight: number }>();
  let total = 0;
  const drop = (key: string): void => {
    total -= entries.get(key)?.weight ?? 0;
    entries.delete(key);
  };
  return {
    get(key) {
      const entry = entries.get(key);
      if (entry === undefined) return undefined;
      entries.delete(key);
      entries.set(key, entry);
      return entry.value;
    },
    set(key, value, weight) {
      drop(key);
      if (weight > budget) return;
      entries.set(key, { value, weight });
      total += weight;
      for (const oldest of entries.keys()) {
        if (total <= budget) break;
        drop(oldest);
      }
    },
  };
}
