import assert from "node:assert/strict";
import { test } from "node:test";
import { isValid, mutantsOf, sample } from "./mutant.ts";

const SOURCE = "export function f(a: number): boolean {\n  return a < 3 && a !== 2;\n}\n";
const sources = new Map(["a.ts", "b.ts"].map((file) => [file, SOURCE]));
const all = [...sources].flatMap(([file, source]) => mutantsOf(file, source));

test("a sample depends on the seed, but not on the order of the candidates", () => {
  const one = sample(all, 6, "seed", sources);
  assert.equal(new Set(one).size, 6);
  assert.deepEqual(sample([...all].reverse(), 6, "seed", sources), one);
  assert.notDeepEqual(sample(all, 6, "other", sources), one);
});

test("a larger sample includes the smaller one, and at most every valid candidate", () => {
  assert.deepEqual(sample(all, 8, "seed", sources).slice(0, 6), sample(all, 6, "seed", sources));
  assert.equal(sample(all, 1000, "seed", sources).length, all.filter((mutant) => isValid(SOURCE, mutant)).length);
});

test("a sample has no mutants that do not parse", () => {
  const mixed = new Map([["a.ts", "a ?? b ?? c;"]]);
  const broken = { file: "a.ts", line: 1, operator: "X", original: "a", start: 0, end: 1, text: "(" };
  assert.deepEqual(sample([broken], 1, "seed", mixed), []);
});

test("a mutant's line is the line where its change begins", () => {
  assert.deepEqual([...new Set(mutantsOf("a.ts", SOURCE).map(({ line }) => line))].sort(), [1, 2]);
});
