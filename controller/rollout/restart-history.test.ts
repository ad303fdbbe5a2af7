import assert from "node:assert/strict";
import { test } from "node:test";
import { RULES } from "#test/fakes/rollout-world.ts";
import { NOW, restart } from "#test/fakes/workload-facts.ts";
import { budgetReturns, DAY_MS, intervalEnds, pruned, spentToday, stamp } from "./restart-history.ts";

test("a stamp is RFC 3339 with milliseconds in UTC, and a day has 24 hours", () => {
  assert.deepEqual([stamp(0), stamp(NOW + 7)], ["1970-01-01T00:00:00.000Z", "2023-11-14T22:13:20.007Z"]);
  assert.equal(DAY_MS, 24 * 60 * 60 * 1_000);
});

test("a restart counts for exactly a day; the last restart is always kept", () => {
  const [old, young] = [restart(NOW - DAY_MS), restart(NOW - DAY_MS + 1)];
  assert.equal(spentToday([old, young], NOW), 1);
  assert.deepEqual(pruned([old, young], NOW), [young]);
  assert.deepEqual(pruned([old, young, restart(NOW)], NOW), [young, restart(NOW)]);
  assert.deepEqual(pruned([old, old], NOW), [old]);
  assert.deepEqual(pruned([], NOW), []);
});

test("the interval doubles with each restart of the last day, up to the maximum", () => {
  const ends = (count: number) => {
    const history = Array.from({ length: count }, (_, index) => restart(NOW - count + 1 + index));
    return intervalEnds(history, RULES, NOW) - NOW;
  };
  assert.deepEqual([1, 2, 3].map(ends), [30_000, 60_000, 120_000]);
  assert.equal(ends(8), 3_600_000);
  assert.equal(intervalEnds([], RULES, NOW), Number.NEGATIVE_INFINITY);
  assert.equal(intervalEnds([restart(NOW - 2 * DAY_MS)], RULES, NOW), NOW - 2 * DAY_MS + 30_000);
});

test("a spent budget returns when its oldest restart is a day old; a budget of 0 never returns", () => {
  const history = [restart(NOW - DAY_MS), restart(NOW - 3), restart(NOW - 2), restart(NOW - 1)];
  assert.equal(budgetReturns(history, { ...RULES, dailyBudget: 3 }), NOW - 3 + DAY_MS);
  assert.equal(budgetReturns(history, { ...RULES, dailyBudget: 2 }), NOW - 2 + DAY_MS);
  assert.equal(budgetReturns(history, { ...RULES, dailyBudget: 0 }), Number.POSITIVE_INFINITY);
});
