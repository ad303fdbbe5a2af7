import assert from "node:assert/strict";
import { test } from "node:test";
import type { Result } from "./judge.ts";
import { progress, report } from "./report.ts";

const result = (file: string, outcome: Result["outcome"], more: Partial<Result> = {}): Result => ({
  ...{ file, outcome, line: 1, operator: "EqualityOperator", original: "<", start: 2, end: 3, text: "<=" },
  ...{ tests: 2, ms: 1234, ...more },
});
const RESULTS = [
  result("a/run.ts", "killed"),
  result("a/b/x.ts", "timeout"),
  result("a/b/x.ts", "survived"),
  result("c/run.ts", "survived", { line: 2, text: "" }),
  result("c/y.ts", "not covered", { flaky: ["c/y.test.ts: t"] }),
];
const SOURCES = new Map([["a/b/x.ts", "a < b;"]]);
const KNOWN = [{ file: "a/b/x.ts", line: "a < b;", operator: "EqualityOperator", reason: "the same" }];

test("the report has the rates of each folder, each subfolder and every run.ts, and the surviving mutants", () => {
  const lines = report(RESULTS, ["c/z.test.ts"], SOURCES, KNOWN).replace(/ {2,}(?=\S)/g, "  ");
  assert.equal(
    lines,
    `a  2/3  66.7 %
  a/b  1/2  50.0 %
c  0/2  0.0 %
every run.ts  1/2  50.0 %
all  2/5  40.0 %
all, without known equivalents  2/4  50.0 %

survivors (2):
  c/run.ts:2 EqualityOperator: < -> (nothing)
  c/y.ts:1 EqualityOperator: < -> <= [no test runs it]
known equivalents (1):
  a/b/x.ts:1 EqualityOperator: < -> <=: the same
flaky without any mutant: c/z.test.ts
failed once, then passed: c/y.ts:1 EqualityOperator: < -> <= (c/y.test.ts: t)
`,
  );
});

test("a line of progress is short and names the test that detected the mutant", () => {
  const [killed] = [result("a/run.ts", "killed", { by: "a/run.test.ts: t" })];
  assert.equal(progress(killed), "killed 1.2 s a/run.ts:1 EqualityOperator: < -> <= (a/run.test.ts: t)");
  assert.equal(progress(RESULTS[3]!), "survived 1.2 s c/run.ts:2 EqualityOperator: < -> (nothing) (2 test files)");
  const long = progress(result("a/x.ts", "killed", { original: "a\n".repeat(900), by: "b".repeat(900) }));
  assert.ok(long.length <= 240 && !long.includes("\n"));
});
