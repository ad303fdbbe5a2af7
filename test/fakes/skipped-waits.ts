import type { TestContext } from "node:test";
import { mockSteadyTime } from "./stopped-time.ts";

/** The client gives a call up after this long by itself: such timers are deadlines, and no waits. */
const DEADLINE_MS = 10_000;

export interface SkippedWaits {
  /** Every wait, milliseconds, in order. */
  readonly waits: number[];
  /** Milliseconds since the beginning: the sum of the waits. */
  elapsed(): number;
}

/**
 * Time goes by only while the code under test waits: a timer of less than 10 s is over at the next turn of the
 * event loop, and the clocks (`Date.now`, `performance.now`) are put forward by it. Longer timers are deadlines of
 * calls and never fire. For code that waits for one thing at a time. `onWait` is called at the end of each wait:
 * what happens meanwhile.
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
