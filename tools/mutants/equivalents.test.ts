import assert from "node:assert/strict";
import { test } from "node:test";
import { equivalentOf, outdated } from "./equivalents.ts";
import { readTree, sourcesOf } from "./files.ts";
import { mutantsOf } from "./mutant.ts";

const SOURCE = "export function f(a: number): boolean {\n  return a < 3 && a !== 2;\n}\n";
const SOURCES = new Map([["a.ts", SOURCE]]);
const ENTRY = { file: "a.ts", line: "return a < 3 && a !== 2;", operator: "EqualityOperator", reason: "because" };

test("a known equivalent is found by the text of its line, for one replacement or for all of an operator", () => {
  const mutant = mutantsOf("a.ts", SOURCE).find(({ text }) => text === "<=")!;
  assert.equal(equivalentOf(mutant, SOURCE, [ENTRY]), ENTRY);
  const others = [
    { ...ENTRY, mutated: ">=" },
    { ...ENTRY, line: "return a;" },
    { ...ENTRY, file: "b.ts" },
    { ...ENTRY, operator: "LogicalOperator" },
  ];
  assert.equal(equivalentOf(mutant, SOURCE, others), undefined);
});

test("an entry is outdated if no mutant matches it", () => {
  const gone = [
    { ...ENTRY, line: "return a;" },
    { ...ENTRY, file: "b.ts" },
    { ...ENTRY, mutated: "==" },
  ];
  assert.deepEqual(outdated(SOURCES, [ENTRY, ...gone]), gone);
});

test("no entry of the list is outdated", () => {
  assert.deepEqual(outdated(sourcesOf(readTree())), []);
});
