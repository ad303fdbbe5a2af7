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
  assert.deepEqual(waits.slice(0, 4), [10, 20, 40, 80]);
  assert.equal(waits.at(-1), 5_000);
  now += 16_000;
  assert.equal(backoff.next(), 10);
});
