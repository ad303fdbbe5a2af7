/** Budget of one namespace: a burst, then one Event per interval. etcd keeps each Event for an hour. */
const NAMESPACE = { burst: 25, intervalMs: 5_000 };
/** Budget of all namespaces together. */
const TOTAL = { burst: 100, intervalMs: 200 };
/** The total allows at most 125 namespaces below their burst at once. The others can be forgotten. */
const MAX_NAMESPACES = 1_000;

/**
 * Limits the number of Events: for each namespace, so that none uses another's budget, and in total. Each bucket
 * stores only the time at which it is full again.
 */
export class EventBudget {
  readonly #now: () => number;
  readonly #fullAt = new Map<string, number>();
  #totalFullAt = Number.NEGATIVE_INFINITY;

  /** `now` is a monotonic clock, milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Takes the right to write one Event. Returns false if there is none left. */
  take(namespace: string): boolean {
    const now = this.#now();
    if (untilFree(this.#fullAt.get(namespace), NAMESPACE, now) > 0) return false;
    if (untilFree(this.#totalFullAt, TOTAL, now) > 0) return false;
    if (this.#fullAt.size >= MAX_NAMESPACES) this.#forgetFull(now);
    this.#fullAt.set(namespace, Math.max(now, this.#fullAt.get(namespace) ?? now) + NAMESPACE.intervalMs);
    this.#totalFullAt = Math.max(now, this.#totalFullAt) + TOTAL.intervalMs;
    return true;
  }

  /**
   * How long an Event that can wait should wait, milliseconds. Such Events leave half of the total burst to those
   * that cannot. Without a namespace: how long such an Event of any namespace has to wait.
   */
  waitMs(namespace = ""): number {
    const now = this.#now();
    const half = { ...TOTAL, burst: TOTAL.burst / 2 };
    return Math.max(untilFree(this.#fullAt.get(namespace), NAMESPACE, now), untilFree(this.#totalFullAt, half, now));
  }

  /** Number of namespaces that are remembered. */
  get size(): number {
    return this.#fullAt.size;
  }

  #forgetFull(now: number): void {
    for (const [namespace, fullAt] of this.#fullAt) if (fullAt <= now) this.#fullAt.delete(namespace);
  }
}

/** Milliseconds until the bucket has room for one Event. It is full again at `fullAt`. */
function untilFree(fullAt: number | undefined, bucket: typeof TOTAL, now: number): number {
  return Math.max(0, (fullAt ?? now) - now - (bucket.burst - 1) * bucket.intervalMs);
}
