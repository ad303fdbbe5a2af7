import assert from "node:assert/strict";
import { test } from "node:test";
import { startTimer } from "./time.ts";

const HOUR_MS = 3_600_000;

test("a wait that is longer than a timer can be ends when it is over, and can be cancelled at any time", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const started = t.mock.method(globalThis, "setTimeout");
  let calls = 0;
  const count = () => {
    calls += 1;
  };
  const begin = () => startTimer(count, 30 * 24 * HOUR_MS + 1);
  begin();
  const cancel = begin();
  for (let hour = 0; hour < 30 * 24; hour += 1) t.mock.timers.tick(HOUR_MS);
  assert.equal(calls, 0);
  cancel();
  t.mock.timers.tick(1);
  assert.equal(calls, 1);
  for (let hour = 0; hour < 30 * 24; hour += 1) t.mock.timers.tick(HOUR_MS);
  assert.equal(calls, 1);
  assert.ok(started.mock.calls.every(({ arguments: [, ms] }) => ms !== undefined && ms <= HOUR_MS));
});

test("a short wait is one timer", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const started = t.mock.method(globalThis, "setTimeout");
  let calls = 0;
  const count = () => {
    calls += 1;
  };
  startTimer(count, HOUR_MS);
  t.mock.timers.tick(HOUR_MS);
  assert.deepEqual([calls, started.mock.callCount()], [1, 1]);
});
