import type { TestContext } from "node:test";
import { mockSteadyTime } from "./stopped-time.ts";

/** The client ends a call after this time by itself. Timers of this length are deadlines, not waits. */
const DEADLINE_MS = 10_000;

export interface SkippedWaits {
  /** The length of every wait in milliseconds, in order. */
  readonly waits: number[];
  /** Milliseconds since the start: the sum of the waits. */
  elapsed(): number;
}

/**
 * Makes time pass only while the code under test waits. A timer of less than 10 s ends at the next turn of the event
 * loop, and the clocks (`Date.now`, `performance.now`) advance by its length. Longer timers are deadlines of calls,
 * and never fire. This is for code that waits for one thing at a time. `onWait` is called at the end of each wait,
 * for events that happen during the wait.
 */
export function skipWaits(t: TestContext, onWait: (elapsed: number) => void = () => {}): SkippedWaits {
  const waits: number[] = [];
  const startedAt = 1_700_000_000_000;
  let elapsed = 0;
  const wait = (run: () => void, ms = 0) => {
    const timer = { unref: () => timer, ref: () => timer };
    if (ms >= DEADLINE_MS) return timer;
    setImmediate(() => {
      waits.push(ms);
      elapsed += ms;
      onWait(elapsed);
      run();
    });
    return timer;
  };
  t.mock.method(globalThis, "setTimeout", wait as unknown as typeof setTimeout);
  t.mock.method(Date, "now", () => startedAt + elapsed);
  mockSteadyTime(t, () => elapsed);
  return { waits, elapsed: () => elapsed };
}
