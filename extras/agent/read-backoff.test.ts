import assert from "node:assert/strict";
import { test } from "node:test";
import { createReadBackoff } from "./read-backoff.ts";

test("the delay between consecutive reads doubles up to five seconds, and resets after a pause", () => {
  let now = 0;
  const backoff = createReadBackoff(() => now);
  const waits = Array.from({ length: 12 }, () => {
    const wait = backoff.next();
    now += wait;
    return wait;
  });
  assert.deepEqual(waits, [10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 5_000, 5_000, 5_000]);
  now += 10_000;
  assert.equal(backoff.next(), 5_000, "not yet a pause");
  now += 15_001;
  assert.equal(backoff.next(), 10);
  assert.equal(backoff.next(), 20);
});
