import { getOrAdd } from "#hostmap/multi-map.ts";

/** Objects that wait. The namespaces take turns, so a namespace with many objects delays no other. */
export class Turns {
  readonly #byNamespace = new Map<string, Set<string>>();

  /** Number of namespaces with objects. */
  get size(): number {
    return this.#byNamespace.size;
  }

  add(namespace: string, object: string): void {
    getOrAdd(this.#byNamespace, namespace, () => new Set<string>()).add(object);
  }

  /** Takes the next object of a namespace for which `isFree` is true. */
  take(isFree: (namespace: string) => boolean): string | undefined {
    for (const [namespace, objects] of this.#byNamespace) {
      if (!isFree(namespace)) continue;
      const [object] = objects;
      if (object !== undefined) objects.delete(object);
      this.#byNamespace.delete(namespace);
      if (objects.size > 0) this.#byNamespace.set(namespace, objects);
      return object;
    }
    return undefined;
  }
}
