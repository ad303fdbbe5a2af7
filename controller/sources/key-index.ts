/** Keys by another key. */
export class KeyIndex {
  readonly #keys = new Map<string, Set<string>>();

  at(by: string): ReadonlySet<string> {
    return this.#keys.get(by) ?? NONE;
  }

  add(by: string, key: string): void {
    const keys = this.#keys.get(by);
    if (keys === undefined) this.#keys.set(by, new Set([key]));
    else keys.add(key);
  }

  remove(by: string, key: string): void {
    const keys = this.#keys.get(by);
    keys?.delete(key);
    if (keys?.size === 0) this.#keys.delete(by);
  }
}

const NONE: ReadonlySet<string> = new Set();
