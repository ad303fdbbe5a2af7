import assert from "node:assert/strict";
import { test } from "node:test";
import { NotedPods } from "./noted-pods.ts";

function takeAll(noted: NotedPods): string[] {
  const taken: string[] = [];
  for (let uid = noted.take(); uid !== undefined; uid = noted.take()) taken.push(uid);
  return taken;
}

test("pods are taken in the order in which they were noted, each once, those that took longer last", () => {
  const noted = new NotedPods();
  for (const [uid, costMs] of [
    ["s1", 5],
    ["q1", 1],
    ["s2", 8],
    ["q2", 0],
    ["q1", 0],
    ["q1", 5],
    ["s1", 0],
  ] as const)
    noted.add(uid, costMs);
  assert.equal(noted.size, 4);
  assert.deepEqual([takeAll(noted), noted.size], [["q1", "q2", "s1", "s2"], 0]);
});

test("a pod that was taken may be noted again, and cleared there is none", () => {
  const noted = new NotedPods();
  noted.add("a", 0);
  assert.equal(noted.take(), "a");
  noted.add("a", 9);
  noted.add("b", 0);
  assert.equal(noted.size, 2);
  noted.clear();
  assert.deepEqual([noted.size, noted.take()], [0, undefined]);
});

test("a class ends at each power of two milliseconds, and one has all over 16", () => {
  const noted = new NotedPods();
  for (const costMs of [900, 17, 16, 8.1, 8, 4.1, 4, 2.1, 2, 1.1, 1, 0]) noted.add(`${costMs}`, costMs);
  assert.deepEqual(takeAll(noted), ["1", "0", "2", "1.1", "4", "2.1", "8", "4.1", "16", "8.1", "900", "17"]);
});
