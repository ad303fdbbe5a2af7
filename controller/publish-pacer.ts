/** Average limits of publications. */
export interface PaceRules {
  readonly publicationsPerSecond: number;
  readonly bytesPerSecond: number;
}

/**
 * Maximum number of readers at the full `bytesPerSecond`. Each byte is sent to every reader, so with more readers the
 * pace is lower in proportion. With the default of 200 KB/s, the API server sends at most 50 MB/s. Webhooks and
 * controllers are far fewer, so they are not counted.
 */
const READERS = 250;

/**
 * Every publication costs time: its interval, or the time of its bytes, whichever is longer. The next one waits until
 * then. So under churn the changes of an interval are published together, and both averages hold. After a quiet time
 * one more publication may follow at once, for example the first addresses of a new install. Its cost is added.
 */
export class PublishPacer {
  readonly #rules: PaceRules;
  readonly #readers: () => number;
  readonly #intervalMs: number;
  /** When the cost of all publications so far is used up. */
  #paidAt = Number.NEGATIVE_INFINITY;
  #seenAt = Number.NEGATIVE_INFINITY;
  #oneMore = false;

  /** `readers`: how many processes read the map, besides webhooks and controllers. */
  constructor(rules: PaceRules, readers: () => number = () => 0) {
    this.#rules = rules;
    this.#readers = readers;
    this.#intervalMs = 1000 / rules.publicationsPerSecond;
  }

  /** Milliseconds until a publication is allowed; 0 if it is allowed now. */
  delay(now: number): number {
    this.#see(now);
    return this.#oneMore ? 0 : Math.max(0, Math.ceil(this.#paidAt - now));
  }

  /** Counts a publication that began at `begun`. */
  spend(begun: number, bytes: number): void {
    this.#see(begun);
    this.#oneMore = begun - this.#paidAt >= this.#intervalMs / 2;
    const sent = bytes * Math.max(1, this.#readers() / READERS);
    const costMs = Math.max(this.#intervalMs, (sent / this.#rules.bytesPerSecond) * 1000);
    this.#paidAt = Math.max(this.#paidAt, begun) + costMs;
  }

  /** If the clock is set back, the next publication must not wait until the clock has caught up. */
  #see(now: number): void {
    if (now < this.#seenAt) this.#paidAt -= this.#seenAt - now;
    this.#seenAt = now;
  }
}
