/** Names by due time, with a resolution of one second: cheap for many names, and first in, first out. */
export class LookupSchedule {
  readonly #bySecond = new Map<number, string[]>();
  /** Names that are already due. */
  readonly #due: string[] = [];
  /** Seconds before this one are empty. */
  #from = 0;

  /** `at` is in milliseconds; a time in the past means as soon as possible. */
  add(name: string, at: number): void {
    const second = Math.ceil(at / 1000);
    if (second < this.#from) {
      this.#due.push(name);
      return;
    }
    const names = this.#bySecond.get(second);
    if (names === undefined) this.#bySecond.set(second, [name]);
    else names.push(name);
  }

  /** Removes and returns the next name that is due at `now`. */
  take(now: number): string | undefined {
    const due = this.#due.pop();
    if (due !== undefined) return due;
    const until = Math.floor(now / 1000);
    // A clock may start at any value: do not iterate over the empty seconds before it.
    if (this.#from === 0) this.#from = Math.min(until, ...this.#bySecond.keys());
    for (; this.#from <= until; this.#from += 1) {
      const names = this.#bySecond.get(this.#from);
      const name = names?.pop();
      if (name !== undefined) return name;
      this.#bySecond.delete(this.#from);
    }
    return undefined;
  }
}
