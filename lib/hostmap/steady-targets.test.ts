import assert from "node:assert/strict";
import { test } from "node:test";
import { SteadyTargets } from "./steady-targets.ts";

test("a target that changes again within a minute stays until a minute after the last change", () => {
  const steady = new SteadyTargets();
  assert.equal(steady.targetOf("n", "a", "a", 0), "a");
  assert.equal(steady.nextDeadline(), undefined, "no change");
  assert.equal(steady.targetOf("n", "a", "b", 1_000), "b");
  assert.equal(steady.warningOf("n"), undefined);
  assert.equal(steady.targetOf("n", "b", "a", 31_000), "b", "the second change within a minute");
  assert.equal(steady.warningOf("n")?.code, "target-unstable");
  assert.equal(steady.targetOf("n", "b", "b", 60_000), "b");
  assert.equal(steady.targetOf("n", "b", "a", 90_000), "b");
  assert.deepEqual([steady.nextDeadline(), steady.takeDue(149_999)], [150_000, []]);
  assert.deepEqual([steady.takeDue(150_000), steady.warningOf("n")], [["n"], undefined]);
  assert.equal(steady.targetOf("n", "b", "a", 150_000), "a");
});
