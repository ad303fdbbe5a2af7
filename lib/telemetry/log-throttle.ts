interface Entry {
  readonly reason: string;
  /** When the last line was logged. */
  readonly since: number;
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
  pass(key: string, { reason = "" } = {}): number | undefined {
    const now = this.#now();
    const entry = this.#entries.get(key);
    if (entry !== undefined && entry.reason === reason && now - entry.since < this.#periodMs) {
      entry.events += 1;
      return undefined;
    }
    if (entry === undefined && this.#entries.size >= MAX_KEYS) this.#entries.clear();
    this.#entries.set(key, { reason, since: now, events: 1 });
    return entry === undefined ? 0 : entry.events - 1;
  }

  /** Forgets a key. Returns whether it had a line. */
  end(key: string): boolean {
    return this.#entries.delete(key);
  }
}
