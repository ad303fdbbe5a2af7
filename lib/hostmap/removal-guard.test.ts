import assert from "node:assert/strict";
import { test } from "node:test";
import { RemovalGuard } from "./removal-guard.ts";

const RULES = { vanishMs: 60, guardNames: 10, holdMs: 300 };
const START = 1_000;

/** A guard that has held a removal since `START`. */
function holding(rules = RULES): RemovalGuard {
  const guard = new RemovalGuard(rules);
  assert.equal(guard.mayRemove(6, 10, START), false);
  return guard;
}

test("a removal of more than half of at least guardNames is held, but not of half, and not in a smaller map", () => {
  const may = (leaving: number, size: number) => new RemovalGuard(RULES).mayRemove(leaving, size, START);
  assert.deepEqual([may(5, 10), may(6, 10), may(9, 9), may(6, 11), may(5, 11)], [true, false, true, false, true]);
});

test("a hold has its start, its end and the numbers of its names", () => {
  const hold = { since: START, until: START + 300, names: 6, of: 10 };
  assert.deepEqual(holding().describe(6, 10), hold);
  assert.deepEqual(holding().until, START + 300);
  assert.deepEqual([new RemovalGuard(RULES).describe(6, 10), new RemovalGuard(RULES).until], [undefined, undefined]);
});

test("a hold keeps its start while removals stay suspicious, and ends when enough names are back", () => {
  const guard = holding();
  assert.equal(guard.mayRemove(8, 10, START + 50), false);
  assert.equal(guard.describe(8, 10)?.since, START);
  assert.equal(guard.mayRemove(5, 10, START + 60), true);
  assert.equal(guard.describe(5, 10), undefined);
  assert.equal(guard.mayRemove(6, 10, START + 70), false);
  assert.deepEqual(guard.describe(6, 10), { since: START + 70, until: START + 370, names: 6, of: 10 });
});

test("a hold ends when its time is over, not before, and never before its names are due", () => {
  const guard = holding();
  assert.deepEqual([guard.expire(START + 299), guard.until], [false, START + 300]);
  assert.deepEqual([guard.expire(START + 300), guard.until], [true, undefined]);
  assert.equal(guard.expire(START + 300), false, "nothing is held any more");
  const slow = holding({ ...RULES, vanishMs: 400 });
  assert.equal(slow.until, START + 400);
  assert.deepEqual([slow.expire(START + 399), slow.expire(START + 400)], [false, true]);
});
