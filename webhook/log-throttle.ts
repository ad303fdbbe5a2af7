/** Whether a line may be logged now: once a period for each key, so that neither a tenant nor a stranger can fill the log. */
export interface LogThrottle {
  /** How many lines of this key were held back since the last one that was let through; undefined: hold this one back too. */
  pass(key: string): number | undefined;
}

const PERIOD_MS = 60_000;
/** Keys hold what tenants choose; past this many all are forgotten, which costs a few lines more. */
const MAX_KEYS = 1_000;

/** `now` in milliseconds. */
export function createLogThrottle(now: () => number): LogThrottle {
  const seen = new Map<string, { since: number; held: number }>();
  return {
    pass(key) {
      const time = now();
      const entry = seen.get(key);
      if (entry !== undefined && time - entry.since < PERIOD_MS) {
        entry.held += 1;
        return undefined;
      }
      if (entry === undefined && seen.size >= MAX_KEYS) seen.clear();
      seen.set(key, { since: time, held: 0 });
      return entry?.held ?? 0;
    },
  };
}
