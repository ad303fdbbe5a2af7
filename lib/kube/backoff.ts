/**
 * Exponential backoff: base, twice the base, ... up to the cap. Jitter spreads replicas: it shortens each delay by up
 * to a half, and lengthens a server's Retry-After by up to a half.
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
 * Maximum share of Retry-After that is added to it. The API server sends the same delay to all clients that it
 * refuses, and all agents would come back at the same moment. The client must not retry sooner than the server said.
 */
const RETRY_AFTER_JITTER = 0.5;

/**
 * Times are in milliseconds. `random` returns a number in [0, 1). Without it there is no jitter, for work that only
 * one replica does.
 */
export function createBackoff(baseMs: number, capMs: number, random?: () => number): Backoff {
  let step = baseMs;
  return {
    next(atLeast = 0) {
      const jittered = random === undefined ? step : step * (0.5 + random() / 2);
      step = Math.min(step * 2, capMs);
      const asked = Math.min(atLeast, MAX_RETRY_AFTER_MS);
      return Math.max(jittered, random === undefined ? asked : asked * (1 + RETRY_AFTER_JITTER * random()));
    },
    reset() {
      step = baseMs;
    },
  };
}
