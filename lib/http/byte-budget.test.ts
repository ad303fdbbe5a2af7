import assert from "node:assert/strict";
import { test } from "node:test";
import { createByteBudget } from "./byte-budget.ts";

function holders(count: number) {
  const evicted: number[] = [];
  const all = Array.from({ length: count }, (_, index) => ({ evict: () => void evicted.push(index) }));
  return { all, evicted };
}

test("above the limit, the oldest holders are evicted, as many as needed", () => {
  const budget = createByteBudget(100);
  const { all, evicted } = holders(4);
  for (const holder of all.slice(0, 3)) budget.charge(holder, 30);
  assert.deepEqual(evicted, []);
  const [first, , , last] = all;
  if (first !== undefined) budget.charge(first, 10);
  assert.deepEqual(evicted, [], "exactly the limit is allowed");
  if (last !== undefined) budget.charge(last, 65);
  assert.deepEqual(evicted, [0, 1]);
});

test("a holder that exceeds the limit alone is evicted", () => {
  const budget = createByteBudget(100);
  const { all, evicted } = holders(1);
  for (const holder of all) budget.charge(holder, 101);
  assert.deepEqual(evicted, [0]);
});

test("released bytes are free again, and only once", () => {
  const budget = createByteBudget(100);
  const { all, evicted } = holders(10);
  for (const holder of all) {
    budget.charge(holder, 90);
    budget.release(holder);
    budget.release(holder);
  }
  assert.deepEqual(evicted, []);
  const [first, second] = all;
  if (first !== undefined) budget.charge(first, 60);
  if (second !== undefined) budget.charge(second, 40);
  assert.deepEqual(evicted, [], "exactly the limit is allowed as before");
  if (second !== undefined) budget.charge(second, 1);
  assert.deepEqual(evicted, [0]);
});
