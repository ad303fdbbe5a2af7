import assert from "node:assert/strict";
import { test } from "node:test";
import { LogThrottle } from "./log-throttle.ts";

test("each key gets one line per minute, with the number of suppressed lines", () => {
  let now = 1_000_000;
  const throttle = new LogThrottle(60_000, () => now);
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

test("a failure is logged once for each reason, and once when it works again, whatever happens in between", () => {
  const throttle = new LogThrottle();
  const lines: string[] = [];
  const failed = (key: string, reason: string) => {
    if (throttle.pass(key, { reason }) !== undefined) lines.push(`${key} ${reason}`);
  };
  const worked = (key: string) => {
    if (throttle.end(key)) lines.push(`${key} works again`);
  };
  worked("map");
  for (const reason of ["503", "503", "403", "403"]) failed("map", reason);
  failed("other", "503");
  worked("map");
  worked("map");
  failed("map", "403");
  assert.deepEqual(lines, ["map 503", "map 403", "other 503", "map works again", "map 403"]);
});

test("the number of keys is limited", () => {
  const throttle = new LogThrottle(60_000, () => 0);
  throttle.pass("first");
  for (let index = 0; index < 1_000; index += 1) throttle.pass(`key-${index}`);
  assert.equal(throttle.pass("first"), 0);
});

test("a thousand keys are kept, even when one of them is logged again; one more key drops all", () => {
  let now = 0;
  const throttle = new LogThrottle(60_000, () => now);
  for (let index = 0; index < 1_000; index += 1) throttle.pass(`key-${index}`);
  assert.equal(throttle.pass("key-0"), undefined);
  now = 60_000;
  assert.equal(throttle.pass("key-0"), 1);
  now = 60_001;
  assert.deepEqual([throttle.pass("key-0"), throttle.pass("key-1"), throttle.pass("key-1")], [undefined, 0, undefined]);
  assert.equal(throttle.pass("one more"), 0);
  assert.deepEqual([throttle.pass("one more"), throttle.pass("key-0")], [undefined, 0]);
});
