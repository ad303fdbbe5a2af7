import assert from "node:assert/strict";
import { test } from "node:test";
import { SteadyTargets } from "./steady-targets.ts";

test("a target that changes again within a minute stays until a minute after the last change", () => {
  const steady = new SteadyTargets();
  const check = (present: string, wanted: string, now: number) => steady.check("n", present, wanted, now)?.code;
  assert.deepEqual([check("a", "a", 0), steady.nextDeadline()], [undefined, undefined], "no change");
  assert.equal(check("a", "b", 1_000), undefined);
  assert.equal(check("b", "a", 31_000), "target-unstable", "the second change within a minute");
  assert.equal(check("b", "b", 60_000), "target-unstable");
  assert.equal(check("b", "a", 90_000), "target-unstable");
  assert.deepEqual([steady.nextDeadline(), steady.takeDue(149_999)], [150_000, []]);
  assert.deepEqual(steady.takeDue(150_000), ["n"]);
  assert.equal(check("b", "a", 150_000), undefined);
});
