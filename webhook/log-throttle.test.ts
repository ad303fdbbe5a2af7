import assert from "node:assert/strict";
import { test } from "node:test";
import { createLogThrottle } from "./log-throttle.ts";

test("one line per minute and key, with the number of suppressed lines", () => {
  let now = 1_000_000;
  const throttle = createLogThrottle(() => now);
  assert.equal(throttle.pass("a"), 0);
  assert.equal(throttle.pass("a"), undefined);
  assert.equal(throttle.pass("a"), undefined);
  assert.equal(throttle.pass("b"), 0);
  now += 59_999;
  assert.equal(throttle.pass("a"), undefined);
  now += 1;
  assert.equal(throttle.pass("a"), 3);
  assert.equal(throttle.pass("a"), undefined);
});

test("the number of keys is limited", () => {
  const throttle = createLogThrottle(() => 0);
  throttle.pass("first");
  for (let index = 0; index < 1_000; index += 1) throttle.pass(`key-${index}`);
  assert.equal(throttle.pass("first"), 0);
});

test("a thousand keys are kept, also when one of them is due again; one more key drops all", () => {
  let now = 0;
  const throttle = createLogThrottle(() => now);
  for (let index = 0; index < 1_000; index += 1) throttle.pass(`key-${index}`);
  assert.equal(throttle.pass("key-0"), undefined);
  now = 60_000;
  assert.equal(throttle.pass("key-0"), 1);
  now = 60_001;
  assert.deepEqual([throttle.pass("key-0"), throttle.pass("key-1"), throttle.pass("key-1")], [undefined, 0, undefined]);
  assert.equal(throttle.pass("one more"), 0);
  assert.deepEqual([throttle.pass("one more"), throttle.pass("key-0")], [undefined, 0]);
});
