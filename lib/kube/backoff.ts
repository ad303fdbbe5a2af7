/**
 * Exponential backoff: base, twice the base, ... up to the cap. Jitter spreads replicas: it shortens each delay by up
 * to a half.
 */
export interface Backoff {
  /**
   * Returns the next delay in milliseconds. It is not shorter than `atLeast` (a server's Retry-After). `capMs` replaces
   * the cap for this delay.
   */
  next(atLeast?: number, capMs?: number): number;
  /** Starts over with the shortest delay. */
  reset(): void;
}

/** Upper limit for a server's Retry-After, milliseconds. */
const MAX_RETRY_AFTER_MS = 60_000;
/**
 * Times are in milliseconds. `random` returns a number in [0, 1). Without it there is no jitter, for work that only
 * one replica does.
 */
export function createBackoff(baseMs: number, capMs: number, random?: () => number): Backoff {
  let step = baseMs;
  return {
    next(atLeast = 0, cap = capMs) {
      const delay = Math.min(step, cap);
      const jittered = random === undefined ? delay : delay * (0.5 + random() / 2);
      step = Math.min(delay * 2, cap);
      return Math.max(jittered, Math.min(atLeast, MAX_RETRY_AFTER_MS));
    },
    reset() {
      step = baseMs;
    },
  };
}
