/** Growing pauses between attempts: base, twice that, ... up to cap, each shortened by up to a half so that peers spread out. */
export interface Backoff {
  /** The next pause in milliseconds; not shorter than `atLeast` (a server's Retry-After). */
  next(atLeast?: number): number;
  /** The next pause is the shortest again. */
  reset(): void;
}

/** A server that asks for a longer pause than this (milliseconds) is asked again anyway. */
const LONGEST_RETRY_AFTER = 60_000;

/** All in milliseconds; `random` gives [0, 1). Without it no pause is shortened: for work that no peer does at the same time. */
export function createBackoff(baseMs: number, capMs: number, random: () => number = () => 1): Backoff {
  let step = baseMs;
  return {
    next(atLeast = 0) {
      const jittered = step * (0.5 + random() / 2);
      step = Math.min(step * 2, capMs);
      return Math.max(jittered, Math.min(atLeast, LONGEST_RETRY_AFTER));
    },
    reset() {
      step = baseMs;
    },
  };
}
