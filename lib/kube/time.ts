/** Milliseconds since the epoch, monotonic: the wall-clock time of the process start plus the elapsed time. */
export function steadyNow(): number {
  return performance.timeOrigin + performance.now();
}

/** Resolves after `ms`, or at once when `signal` fires. Never rejects. */
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

/** Rejects with the reason of `signal` as soon as it fires, whether `work` has ended or not. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

/** Resolves after pending I/O and timers have run. */
export function yieldToLoop(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Maximum time for which a long loop keeps the thread at once, milliseconds. */
const SLICE_MS = 10;

/**
 * Divides a long loop into slices. The loop calls the returned function after each step. The function returns
 * undefined. At the end of a slice it returns a promise that resolves when pending I/O and timers have run.
 */
export function timeSlices(now: () => number = steadyNow): () => Promise<void> | undefined {
  let until = now() + SLICE_MS;
  return () => {
    if (now() < until) return undefined;
    return yieldToLoop().then(() => {
      until = now() + SLICE_MS;
    });
  };
}

/** A random integer from `low` to `high`, inclusive. */
export function between(low: number, high: number, random: () => number): number {
  return Math.round(low + (high - low) * random());
}
