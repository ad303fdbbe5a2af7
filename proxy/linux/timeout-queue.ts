/**
 * An entry of at most one queue at a time. The links are fields of the entry itself, so that adding allocates nothing.
 */
export interface TimeoutEntry {
  /** Milliseconds on the loop's clock. */
  deadline: number;
  queue: TimeoutQueue | undefined;
  previous: TimeoutEntry | undefined;
  next: TimeoutEntry | undefined;
}

/** Entries with the same timeout. The oldest expires first. Adding and removing take constant time. */
export class TimeoutQueue {
  readonly #ms: number;
  readonly #onTimeout: (entry: TimeoutEntry) => void;
  #first: TimeoutEntry | undefined;
  #last: TimeoutEntry | undefined;

  /** Calls `onTimeout` for each expired entry after its removal from the queue. */
  constructor(ms: number, onTimeout: (entry: TimeoutEntry) => void) {
    this.#ms = ms;
    this.#onTimeout = onTimeout;
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

  /** The earliest deadline, or Infinity if the queue is empty. */
  nextDeadline(): number {
    return this.#first?.deadline ?? Number.POSITIVE_INFINITY;
  }

  expire(now: number): void {
    for (;;) {
      const first = this.#first;
      if (first === undefined || first.deadline > now) return;
      this.remove(first);
      this.#onTimeout(first);
    }
  }
}
