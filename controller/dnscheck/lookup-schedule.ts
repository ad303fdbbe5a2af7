/** Names by the time when they are due, told to the second: cheap for many names, and in the order in which they came. */
export class LookupSchedule {
  readonly #bySecond = new Map<number, string[]>();
  /** Seconds before this one hold nothing. */
  #from = 0;

  /** `at` is in milliseconds; a time that is past means: as soon as possible. */
  add(name: string, at: number): void {
    const second = Math.max(this.#from, Math.ceil(at / 1000));
    const names = this.#bySecond.get(second);
    if (names === undefined) this.#bySecond.set(second, [name]);
    else names.push(name);
  }

  /** The next name that is due at `now`; it is then no longer scheduled. */
  take(now: number): string | undefined {
    const until = Math.floor(now / 1000);
    // A clock may begin anywhere: the empty seconds before it are not walked through.
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
