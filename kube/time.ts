/** Milliseconds since the epoch that never jump: as the wall clock was when the process began, then monotonic. */
export function steadyNow(): number {
  return performance.timeOrigin + performance.now();
}

/** Resolves after `ms`, or at once when `signal` fires; never rejects. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done, { once: true });
  });
}

/** Lets pending I/O and timers run. */
export function yieldToLoop(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** A whole number from `low` to `high`, both included. */
export function between(low: number, high: number, random: () => number): number {
  return Math.round(low + (high - low) * random());
}
