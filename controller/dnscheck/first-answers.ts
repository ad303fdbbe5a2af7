/** How long a new name waits for its first answer, milliseconds. */
const FIRST_ANSWER_MS = 2_000;
/** Maximum number of names that stop waiting in one tick, so that a tick stays short. */
const PER_TICK = 1_000;

/**
 * The names that wait for their first answer. A new name waits for a limited time. A restart brings too many names at
 * once. So the time of such a name begins with its own look-up, as long as DNS answers at all.
 */
export class FirstAnswers {
  readonly #queued = new Set<string>();
  /** By name: the end of its wait, in ascending order. */
  readonly #until = new Map<string, number>();

  has(name: string): boolean {
    return this.#queued.has(name) || this.#until.has(name);
  }

  add(name: string, now: number): void {
    this.#until.set(name, now + FIRST_ANSWER_MS);
  }

  /** Adds a name that existed at the restart. */
  queue(name: string): void {
    this.#queued.add(name);
  }

  /** Called when the look-up of a name begins. */
  begin(name: string, now: number): void {
    if (this.#queued.delete(name)) this.add(name, now);
  }

  delete(name: string): void {
    this.#queued.delete(name);
    this.#until.delete(name);
  }

  /** Removes and returns the names that have waited long enough. `answered` is the time of the last DNS answer. */
  takeDue(now: number, answered: number): string[] {
    const due: string[] = [];
    for (const [name, until] of this.#until) {
      if (until > now || due.length >= PER_TICK) break;
      due.push(name);
    }
    if (now - answered >= FIRST_ANSWER_MS) {
      for (const name of this.#queued) {
        if (due.length >= PER_TICK) break;
        due.push(name);
      }
    }
    for (const name of due) this.delete(name);
    return due;
  }
}
