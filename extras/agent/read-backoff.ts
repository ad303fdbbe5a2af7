/**
 * Exponential backoff of reads, so that a container that keeps writing to its hosts file does not keep the agent busy.
 */
export interface ReadBackoff {
  /** Milliseconds to wait before the next read. */
  next(): number;
}

/** The kubelet truncates a file and writes it at once; after this delay it has finished. */
const FIRST_MS = 10;
const MAX_MS = 5_000;
/** The backoff resets after this long without a read. */
const RESET_MS = 15_000;

export function createReadBackoff(now: () => number): ReadBackoff {
  let wait = FIRST_MS;
  let last = Number.NEGATIVE_INFINITY;
  return {
    next() {
      wait = now() - last > RESET_MS ? FIRST_MS : Math.min(wait * 2, MAX_MS);
      last = now();
      return wait;
    },
  };
}
