import assert from "node:assert/strict";
import { test } from "node:test";
import { workerCount } from "./worker-count.ts";

test("automatic: half of the cores, at least one worker and at most four", () => {
  const counts = [1, 2, 3, 4, 5, 6, 8, 64].map((cores) => workerCount(0, cores));
  assert.deepEqual(counts, [1, 1, 1, 2, 2, 3, 4, 4]);
});

test("a configured number is taken, whatever the cores", () => {
  assert.equal(workerCount(3, 1), 3);
  assert.equal(workerCount(1, 64), 1);
});
