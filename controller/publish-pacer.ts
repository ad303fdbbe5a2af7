/** How much may be written, on average. */
export interface PaceRules {
  readonly publicationsPerSecond: number;
  readonly bytesPerSecond: number;
}

/**
 * Every publication has a price in time: the turn it takes, or what its bytes take, whichever is longer. The next one waits until that
 * is over, so under churn the changes of a whole interval go out together and both averages hold. A publication is never split:
 * a change in many shards goes out whole, and is waited for afterwards.
 * After a quiet time one more may follow at once: the second of two changes, the first addresses of a new install. Its price adds up.
 */
export class PublishPacer {
  readonly #rules: PaceRules;
  readonly #turnMs: number;
  /** When everything published so far is paid for. */
  #paidAt = Number.NEGATIVE_INFINITY;
  #seenAt = Number.NEGATIVE_INFINITY;
  #oneMore = false;

  constructor(rules: PaceRules) {
    this.#rules = rules;
    this.#turnMs = 1000 / rules.publicationsPerSecond;
  }

  /** Milliseconds until a publication is allowed; 0 for now. */
  delay(now: number): number {
    this.#see(now);
    return this.#oneMore ? 0 : Math.max(0, Math.ceil(this.#paidAt - now));
  }

  /** Counts a publication that was begun at `begun`. */
  spend(begun: number, bytes: number): void {
    this.#see(begun);
    this.#oneMore = begun - this.#paidAt >= this.#turnMs / 2;
    const price = Math.max(this.#turnMs, (bytes / this.#rules.bytesPerSecond) * 1000);
    this.#paidAt = Math.max(this.#paidAt, begun) + price;
  }

  /** A clock that was set back must not make the next publication wait until it has caught up. */
  #see(now: number): void {
    if (now < this.#seenAt) this.#paidAt -= this.#seenAt - now;
    this.#seenAt = now;
  }
}
