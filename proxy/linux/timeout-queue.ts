/** What can wait in one list at a time. Fields of the waiting thing itself, so that waiting allocates nothing. */
export interface Waiter {
  /** Milliseconds on the loop's clock. */
  deadline: number;
  list: TimeoutQueue | undefined;
  before: Waiter | undefined;
  after: Waiter | undefined;
}

/** Things that all wait equally long: the one that came first is due first. Adding and removing take constant time. */
export class TimeoutQueue {
  readonly #ms: number;
  readonly #onDue: (waiter: Waiter) => void;
  #first: Waiter | undefined;
  #last: Waiter | undefined;

  /** `onDue` is called for a waiter that has been taken off the list. */
  constructor(ms: number, onDue: (waiter: Waiter) => void) {
    this.#ms = ms;
    this.#onDue = onDue;
  }

  add(waiter: Waiter, now: number): void {
    waiter.list?.remove(waiter);
    waiter.deadline = now + this.#ms;
    waiter.list = this;
    waiter.before = this.#last;
    if (this.#last === undefined) this.#first = waiter;
    else this.#last.after = waiter;
    this.#last = waiter;
  }

  remove(waiter: Waiter): void {
    const { before, after } = waiter;
    if (before === undefined) this.#first = after;
    else before.after = after;
    if (after === undefined) this.#last = before;
    else after.before = before;
    waiter.list = undefined;
    waiter.before = undefined;
    waiter.after = undefined;
  }

  /** When the next one is due; Infinity if none waits. */
  next(): number {
    return this.#first === undefined ? Number.POSITIVE_INFINITY : this.#first.deadline;
  }

  expire(now: number): void {
    for (;;) {
      const first = this.#first;
      if (first === undefined || first.deadline > now) return;
      this.remove(first);
      this.#onDue(first);
    }
  }
}
