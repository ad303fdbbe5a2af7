interface Entry {
  readonly reason: string;
  /** When the last line was logged, and when the last event came. */
  readonly since: number;
  last: number;
  /** Events since `since`, the logged one included. */
  events: number;
}

/** Keys may contain text of tenants. At this many keys all are dropped, which costs a few more log lines. */
const MAX_KEYS = 1_000;

/**
 * Decides which log lines are written. It logs the first event of a key. It counts the following events until the
 * period is over, the reason changes, or the key ends. So neither a retry loop nor an attacker can fill the log.
 */
export class LogThrottle {
  readonly #periodMs: number;
  readonly #now: () => number;
  readonly #entries = new Map<string, Entry>();

  /** `periodMs` in milliseconds. Without a period, a key is logged again only for another reason, or after its end. */
  constructor(periodMs = Number.POSITIVE_INFINITY, now: () => number = () => 0) {
    this.#periodMs = periodMs;
    this.#now = now;
  }

  /** Returns how many events of this key were suppressed since its last line. Undefined: suppress this one, too. */
  pass(key: string, { reason = "", events = 1 } = {}): number | undefined {
    const now = this.#now();
    const entry = this.#entries.get(key);
    if (entry !== undefined && entry.reason === reason && now - entry.since < this.#periodMs) {
      entry.events += events;
      entry.last = now;
      return undefined;
    }
    if (entry === undefined && this.#entries.size >= MAX_KEYS) this.#entries.clear();
    this.#entries.set(key, { reason, since: now, last: now, events });
    return entry === undefined ? 0 : entry.events - 1;
  }

  /** Milliseconds since the last event of a key. Infinite if there was no event. */
  quietMs(key: string): number {
    return this.#now() - (this.#entries.get(key)?.last ?? Number.NEGATIVE_INFINITY);
  }

  /**
   * Forgets a key. Returns the number of its events since its last line, including the logged one. Undefined: it had
   * no line.
   */
  end(key: string): number | undefined {
    const entry = this.#entries.get(key);
    this.#entries.delete(key);
    return entry?.events;
  }
}
