/**
 * Exponential backoff: base, twice the base, ... up to the cap. Jitter shortens each delay by up to a half, to spread replicas.
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
 * Times are milliseconds; `random` returns a number in [0, 1). Without it there is no jitter: for work that only one replica
 * does.
 */
export function createBackoff(baseMs: number, capMs: number, random: () => number = () => 1): Backoff {
  let step = baseMs;
  return {
    next(atLeast = 0) {
      const jittered = step * (0.5 + random() / 2);
      step = Math.min(step * 2, capMs);
      return Math.max(jittered, Math.min(atLeast, MAX_RETRY_AFTER_MS));
    },
    reset() {
      step = baseMs;
    },
  };
}
