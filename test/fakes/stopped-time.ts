import type { TestContext } from "node:test";

/** Turns of the event loop after which everything has settled that does not wait for a timer. */
const TURNS = 40;

/** Lets everything settle that does not wait for a timer. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn += 1) await new Promise(setImmediate);
}

/**
 * Stops timers, `Date` and `performance.now` and gives how to let time pass, in steps of `stepMs` with everything
 * settled after each. What a timer sets going may set another timer only at the end of the step.
 */
export function stopTime(t: Pick<TestContext, "mock">, usualMs = 10): (ms: number, stepMs?: number) => Promise<void> {
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval", "Date"], now: 1_700_000_000_000 });
  const begun = Date.now();
  t.mock.method(performance, "now", () => 1_000_000 + Date.now() - begun);
  return async (ms, stepMs = usualMs) => {
    await settled();
    for (let passed = 0; passed < ms; passed += stepMs) {
      t.mock.timers.tick(Math.min(stepMs, ms - passed));
      await settled();
    }
  };
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
