/**
 * Exponential backoff: base, twice the base, ... up to the cap. Jitter spreads replicas: it shortens each delay by up
 * to a half.
 */
export interface Backoff {
  /** Returns the next delay in milliseconds. It is not shorter than `atLeast` (a server's Retry-After). */
  next(atLeast?: number): number;
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
    next(atLeast = 0) {
      const delay = Math.min(step, capMs);
      const jittered = random === undefined ? delay : delay * (0.5 + random() / 2);
      step = delay * 2;
      return Math.max(jittered, Math.min(atLeast, MAX_RETRY_AFTER_MS));
    },
    reset() {
      step = baseMs;
    },
  };
}
