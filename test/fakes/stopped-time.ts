import type { TestContext } from "node:test";

/** After this many turns of the event loop, everything has settled that does not wait for a timer. */
const TURNS = 40;

/** Lets everything settle that does not wait for a timer. */
export async function settled(): Promise<void> {
  await turns(TURNS);
}

/**
 * Resolves after `count` turns of the event loop. It uses only one promise, because the test runner tracks every
 * promise.
 */
export function turns(count: number): Promise<void> {
  return new Promise((resolve) => {
    let left = count;
    const turn = () => {
      left -= 1;
      if (left <= 0) resolve();
      else setImmediate(turn);
    };
    setImmediate(turn);
  });
}

/**
 * Stops timers, `Date` and `performance.now`. Returns a function that lets time pass in steps of `stepMs`. After each
 * step, everything settles within `count` turns of the event loop. The work that a timer starts may run only at the end
 * of the step. A timer that this work sets then starts there.
 */
export function stopTime(
  t: Pick<TestContext, "mock">,
  usualMs = 10,
  count = TURNS,
): (ms: number, stepMs?: number) => Promise<void> {
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval", "Date"], now: 1_700_000_000_000 });
  const begun = Date.now();
  mockSteadyTime(t, () => 1_000_000 + Date.now() - begun);
  return async (ms, stepMs = usualMs) => {
    await turns(count);
    for (let passed = 0; passed < ms; passed += stepMs) {
      t.mock.timers.tick(Math.min(stepMs, ms - passed));
      await turns(count);
    }
  };
}

const STEADY = performance.now;

/** Replaces `performance.now` until the test ends. Another call in the same test replaces it again. */
export function mockSteadyTime(t: Pick<TestContext, "mock">, now: () => number): void {
  // With this mock, the test restores `performance.now` at its end. The mock itself is not used, because it would
  // record each of the many calls with a stack.
  if (performance.now === STEADY) t.mock.method(performance, "now");
  performance.now = now;
}

/** Timers and the clock that they go by, in milliseconds. */
interface FakeTimers {
  readonly now: () => number;
  readonly set: (callback: () => void, ms: number) => object;
  readonly clear: (timer: object | undefined) => void;
}

const TIMERS = { setTimeout, clearTimeout, setImmediate, clearImmediate };

/** Replaces timers and `performance.now` until the test ends, or until another call. */
export function replaceTimers(t: Pick<TestContext, "mock" | "after">, { now, set, clear }: FakeTimers): void {
  t.after(() => Object.assign(globalThis, TIMERS));
  const setImmediate = (callback: () => void) => set(callback, 0);
  Object.assign(globalThis, { setTimeout: set, clearTimeout: clear, setImmediate, clearImmediate: clear });
  mockSteadyTime(t, now);
}

/** Whether a promise has settled by now. */
export async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  let done = false;
  const note = () => {
    done = true;
  };
  promise.then(note, note);
  await settled();
  return done;
}
