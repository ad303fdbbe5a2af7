/** The objects that wait for their Event, by namespace. Each object is listed once, the longest waiting one first. */
export class EventQueue {
  readonly #byNamespace = new Map<string, Set<string>>();
  readonly #entries = new Map<string, { readonly namespace: string; readonly dueAt: number }>();

  /** An object that already waits keeps its place. */
  add(object: string, namespace: string, dueAt: number): void {
    if (this.#entries.has(object)) return;
    this.#entries.set(object, { namespace, dueAt });
    const objects = this.#byNamespace.get(namespace);
    if (objects === undefined) this.#byNamespace.set(namespace, new Set([object]));
    else objects.add(object);
  }

  remove(object: string): void {
    const namespace = this.#entries.get(object)?.namespace;
    if (namespace === undefined) return;
    this.#entries.delete(object);
    const objects = this.#byNamespace.get(namespace);
    objects?.delete(object);
    if (objects?.size === 0) this.#byNamespace.delete(namespace);
  }

  /**
   * Takes the next object that is due. The namespaces take turns, so a namespace with many objects delays no other.
   * `waitMs` returns how long a namespace has to wait. If no object is due, returns the shortest wait, or undefined
   * if the queue is empty.
   */
  take(now: number, waitMs: (namespace: string) => number): { readonly object: string } | { readonly waitMs?: number } {
    let least = Number.POSITIVE_INFINITY;
    for (const [namespace, objects] of this.#byNamespace) {
      const [object = ""] = objects;
      const wait = Math.max((this.#entries.get(object)?.dueAt ?? now) - now, waitMs(namespace));
      if (wait <= 0) {
        this.remove(object);
        this.#takeTurn(namespace);
        return { object };
      }
      least = Math.min(least, wait);
    }
    return least === Number.POSITIVE_INFINITY ? {} : { waitMs: least };
  }

  get size(): number {
    return this.#entries.size;
  }

  #takeTurn(namespace: string): void {
    const objects = this.#byNamespace.get(namespace);
    if (objects === undefined) return;
    this.#byNamespace.delete(namespace);
    this.#byNamespace.set(namespace, objects);
  }
}
