/**
 * Exponential backoff: base, twice the base, ... up to the cap. Jitter shortens each delay by up to a half, and
 * lengthens a server's Retry-After by up to a half, to spread replicas.
 */
export interface Backoff {
  /** The next delay in milliseconds; not shorter than `atLeast` (a server's Retry-After). */
  next(atLeast?: number): number;
  /** Starts again with the shortest delay. */
  reset(): void;
}

/** Upper limit for a server's Retry-After, milliseconds. */
const MAX_RETRY_AFTER_MS = 60_000;
/**
 * How much longer than Retry-After a wait is at most, as a share of it. The API server gives everyone whom it
 * refuses the same second, and 5,000 agents would be back at the same moment.
 */
const RETRY_AFTER_JITTER = 0.5;

/**
 * A server's Retry-After with jitter above it: it is never asked sooner than it said. `random` returns a number in
 * [0, 1).
 */
export function jitterRetryAfter(ms: number, random: () => number): number {
  return ms * (1 + RETRY_AFTER_JITTER * random());
}

/**
 * Times are milliseconds; `random` returns a number in [0, 1). Without it there is no jitter: for work that only
 * one replica does.
 */
export function createBackoff(baseMs: number, capMs: number, random?: () => number): Backoff {
  let step = baseMs;
  return {
    next(atLeast = 0) {
      const jittered = random === undefined ? step : step * (0.5 + random() / 2);
      step = Math.min(step * 2, capMs);
      const asked = Math.min(atLeast, MAX_RETRY_AFTER_MS);
      return Math.max(jittered, random === undefined ? asked : jitterRetryAfter(asked, random));
    },
    reset() {
      step = baseMs;
    },
  };
}
