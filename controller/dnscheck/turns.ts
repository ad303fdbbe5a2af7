import { getOrAdd } from "#hostmap/multi-map.ts";

/** Names to look up. The namespaces take turns, so a namespace with many names delays no other. */
export class Turns {
  readonly #byNamespace = new Map<string, Set<string>>();

  /** Number of namespaces with names. */
  get size(): number {
    return this.#byNamespace.size;
  }

  add(namespace: string, name: string): void {
    getOrAdd(this.#byNamespace, namespace, () => new Set<string>()).add(name);
  }

  /** Takes the next name of a namespace for which `isFree` is true. */
  take(isFree: (namespace: string) => boolean): string | undefined {
    for (const [namespace, names] of this.#byNamespace) {
      if (!isFree(namespace)) continue;
      const [name] = names;
      if (name !== undefined) names.delete(name);
      this.#byNamespace.delete(namespace);
      if (names.size > 0) this.#byNamespace.set(namespace, names);
      return name;
    }
    return undefined;
  }
}
