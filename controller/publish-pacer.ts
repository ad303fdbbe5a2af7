/** Average limits of what is written. */
export interface PaceRules {
  readonly publicationsPerSecond: number;
  readonly bytesPerSecond: number;
}

/**
 * Every publication costs time: its interval, or the time of its bytes, whichever is longer. The next one waits until then, so under
 * churn the changes of an interval are published together and both averages hold. A publication is never split: a change in many
 * shards is written as a whole, and the wait follows.
 * After a quiet time one more may follow at once, for example the first addresses of a new install. Its cost is added.
 */
export class PublishPacer {
  readonly #rules: PaceRules;
  readonly #intervalMs: number;
  /** When the cost of all publications so far is used up. */
  #paidAt = Number.NEGATIVE_INFINITY;
  #seenAt = Number.NEGATIVE_INFINITY;
  #oneMore = false;

  constructor(rules: PaceRules) {
    this.#rules = rules;
    this.#intervalMs = 1000 / rules.publicationsPerSecond;
  }

  /** Milliseconds until a publication is allowed; 0 for now. */
  delay(now: number): number {
    this.#see(now);
    return this.#oneMore ? 0 : Math.max(0, Math.ceil(this.#paidAt - now));
  }

  /** Counts a publication that began at `begun`. */
  spend(begun: number, bytes: number): void {
    this.#see(begun);
    this.#oneMore = begun - this.#paidAt >= this.#intervalMs / 2;
    const costMs = Math.max(this.#intervalMs, (bytes / this.#rules.bytesPerSecond) * 1000);
    this.#paidAt = Math.max(this.#paidAt, begun) + costMs;
  }

  /** If the clock is set back, the next publication must not wait until it has caught up. */
  #see(now: number): void {
    if (now < this.#seenAt) this.#paidAt -= this.#seenAt - now;
    this.#seenAt = now;
  }
}
