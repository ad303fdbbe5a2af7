import assert from "node:assert/strict";
import { test } from "node:test";
import { createReadBackoff } from "./read-backoff.ts";

test("looks that follow each other are further and further apart, up to five seconds; after a calm the next is soon again", () => {
  let now = 0;
  const throttle = createReadBackoff(() => now);
  const waits = Array.from({ length: 12 }, () => {
    const wait = throttle.next();
    now += wait;
    return wait;
  });
  assert.deepEqual(waits.slice(0, 4), [10, 20, 40, 80]);
  assert.equal(waits.at(-1), 5_000);
  now += 16_000;
  assert.equal(throttle.next(), 10);
});
