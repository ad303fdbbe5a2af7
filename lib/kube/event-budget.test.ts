import assert from "node:assert/strict";
import { test } from "node:test";
import { EventBudget } from "./event-budget.ts";

function rig() {
  const clock = { now: 0 };
  const budget = new EventBudget(() => clock.now);
  const take = (namespace: string, times: number) =>
    Array.from({ length: times }, () => budget.take(namespace)).filter(Boolean).length;
  return { clock, budget, take };
}

test("a namespace has a burst of 25, then one Event in five seconds, and cannot use another namespace's budget", () => {
  const { clock, take } = rig();
  assert.equal(take("noisy", 1_000), 25);
  assert.equal(take("quiet", 25), 25);
  clock.now = 4_999;
  assert.equal(take("noisy", 10), 0);
  clock.now = 5_000;
  assert.equal(take("noisy", 10), 1);
  clock.now = 3_600_000;
  assert.equal(take("noisy", 1_000), 25);
});

test("all namespaces together have 100, then five a second; half of the burst is for urgent Events", () => {
  const { clock, budget } = rig();
  let taken = 0;
  for (let index = 0; index < 10_000; index++)
    if (budget.waitMs(`ns-${index}`) === 0) taken += +budget.take(`ns-${index}`);
  assert.equal(taken, 50);
  assert.equal(budget.waitMs("ns-0"), 200);
  for (let index = 0; index < 10_000; index++) taken += +budget.take(`late-${index}`);
  assert.equal(taken, 100);
  clock.now = 1_000;
  for (let index = 0; index < 10_000; index++) taken += +budget.take(`later-${index}`);
  assert.equal(taken, 105);
});

test("only namespaces below their burst are remembered, at most 1,000", () => {
  const { clock, budget } = rig();
  let most = 0;
  for (let second = 0; second < 3_600; second++) {
    clock.now = second * 1_000;
    for (let index = 0; index < 6; index++) budget.take(`ns-${second}-${index}`);
    most = Math.max(most, budget.size);
  }
  assert.ok(most <= 1_000, String(most));
});
