/** Limits log lines to one per key and period, so that neither a tenant nor a stranger can fill the log. */
export interface LogThrottle {
  /**
   * Returns how many lines of this key were suppressed since the last logged one, or undefined to suppress this
   * line too.
   */
  pass(key: string): number | undefined;
}

const PERIOD_MS = 60_000;
/** Keys contain what tenants write. At this many keys all are dropped, which costs a few more log lines. */
const MAX_KEYS = 1_000;

/** `now` in milliseconds. */
export function createLogThrottle(now: () => number): LogThrottle {
  const entries = new Map<string, { since: number; suppressed: number }>();
  return {
    pass(key) {
      const time = now();
      const entry = entries.get(key);
      if (entry !== undefined && time - entry.since < PERIOD_MS) {
        entry.suppressed += 1;
        return undefined;
      }
      if (entry === undefined && entries.size >= MAX_KEYS) entries.clear();
      entries.set(key, { since: time, suppressed: 0 });
      return entry?.suppressed ?? 0;
    },
  };
}
