/** What can wait in one list at a time. Fields of the waiting thing itself, so that waiting allocates nothing. */
export interface TimeoutEntry {
  /** Milliseconds on the loop's clock. */
  deadline: number;
  queue: TimeoutQueue | undefined;
  previous: TimeoutEntry | undefined;
  next: TimeoutEntry | undefined;
}

/** Things that all wait equally long: the one that came first is due first. Adding and removing take constant time. */
export class TimeoutQueue {
  readonly #ms: number;
  readonly #onDue: (entry: TimeoutEntry) => void;
  #first: TimeoutEntry | undefined;
  #last: TimeoutEntry | undefined;

  /** `onDue` is called for a waiter that has been taken off the list. */
  constructor(ms: number, onDue: (entry: TimeoutEntry) => void) {
    this.#ms = ms;
    this.#onDue = onDue;
  }

  add(entry: TimeoutEntry, now: number): void {
    entry.queue?.remove(entry);
    entry.deadline = now + this.#ms;
    entry.queue = this;
    entry.previous = this.#last;
    if (this.#last === undefined) this.#first = entry;
    else this.#last.next = entry;
    this.#last = entry;
  }

  remove(entry: TimeoutEntry): void {
    const { previous, next: after } = entry;
    if (previous === undefined) this.#first = after;
    else previous.next = after;
    if (after === undefined) this.#last = previous;
    else after.previous = previous;
    entry.queue = undefined;
    entry.previous = undefined;
    entry.next = undefined;
  }

  /** When the next one is due; Infinity if none waits. */
  nextDeadline(): number {
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
