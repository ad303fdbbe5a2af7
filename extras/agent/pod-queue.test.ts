import assert from "node:assert/strict";
import { test } from "node:test";
import { PodQueue } from "./pod-queue.ts";

function takeAll(queue: PodQueue): string[] {
  const taken: string[] = [];
  for (let uid = queue.take(); uid !== undefined; uid = queue.take()) taken.push(uid);
  return taken;
}

test("pods are taken in the order in which they were added, each once, but slower pods last", () => {
  const queue = new PodQueue();
  for (const [uid, costMs] of [
    ["s1", 5],
    ["q1", 1],
    ["s2", 8],
    ["q2", 0],
    ["q1", 0],
    ["q1", 5],
    ["s1", 0],
  ] as const)
    queue.add(uid, costMs);
  assert.equal(queue.size, 4);
  assert.deepEqual([takeAll(queue), queue.size], [["q1", "q2", "s1", "s2"], 0]);
});

test("a pod that was taken can be added again, and a cleared queue is empty", () => {
  const queue = new PodQueue();
  queue.add("a", 0);
  assert.equal(queue.take(), "a");
  queue.add("a", 9);
  queue.add("b", 0);
  assert.equal(queue.size, 2);
  queue.clear();
  assert.deepEqual([queue.size, queue.take()], [0, undefined]);
});

test("each class ends at a power of two milliseconds, and the last has all pods over 16 ms", () => {
  const queue = new PodQueue();
  for (const costMs of [900, 17, 16, 8.1, 8, 4.1, 4, 2.1, 2, 1.1, 1, 0]) queue.add(`${costMs}`, costMs);
  assert.deepEqual(takeAll(queue), ["1", "0", "2", "1.1", "4", "2.1", "8", "4.1", "16", "8.1", "900", "17"]);
});
