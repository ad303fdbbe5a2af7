import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import { isSettled } from "#test/fakes/stopped-time.ts";
import { pause, timeSlices } from "./time.ts";

const HOUR_MS = 3_600_000;

test("a pause ends when its time is over or its signal fires, and leaves no timer and no listener", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const cleared = t.mock.method(globalThis, "clearTimeout");
  const stop = new AbortController();
  const listeners = () => getEventListeners(stop.signal, "abort").length;
  const over = pause(100, stop.signal);
  t.mock.timers.tick(99);
  assert.equal(await isSettled(over), false);
  assert.equal(listeners(), 1);
  t.mock.timers.tick(1);
  await over;
  assert.equal(listeners(), 0);
  const aborted = pause(HOUR_MS, stop.signal);
  const before = cleared.mock.callCount();
  stop.abort();
  await aborted;
  assert.equal(cleared.mock.callCount(), before + 1);
  const started = t.mock.method(globalThis, "setTimeout");
  await pause(HOUR_MS, stop.signal);
  assert.equal(started.mock.callCount(), 0, "there is nothing to wait for");
  const plain = pause(1);
  t.mock.timers.tick(1);
  await plain;
});

test("a loop continues within a slice; afterwards pending events are handled, then the next slice begins", async () => {
  let now = 0;
  const sliceEnd = timeSlices(() => now);
  now = 9;
  assert.equal(sliceEnd(), undefined);
  now = 10;
  let handled = false;
  setImmediate(() => {
    handled = true;
  });
  await sliceEnd();
  assert.ok(handled);
  now = 19;
  assert.equal(sliceEnd(), undefined);
  now = 20;
  assert.notEqual(sliceEnd(), undefined);
});
