import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { merge, ran, readCoverage, type Written } from "./coverage.ts";

const range = (startOffset: number, endOffset: number, count: number) => ({ startOffset, endOffset, count });
const written = (...ranges: ReturnType<typeof range>[]): Written => ({
  result: [{ url: "file:///tree/a.ts", functions: ranges.map((one) => ({ ranges: [one] })) }],
});
const at = (start: number, end: number) => ({ file: "a.ts", start, end });

test("the innermost range decides whether an offset ran, whatever the order of the ranges", () => {
  const coverage = merge([written(range(4, 6, 1), range(0, 10, 1), range(2, 8, 0))], "/tree/");
  assert.deepEqual(coverage.get("a.ts"), [
    [0, 2],
    [4, 6],
    [8, 10],
  ]);
});

test("text that ran in one process counts as run", () => {
  const coverage = merge([written(range(0, 6, 1), range(2, 4, 0)), written(range(0, 6, 0), range(3, 4, 2))], "/tree/");
  assert.equal(ran(coverage, at(2, 3)), false);
  assert.equal(ran(coverage, at(3, 4)), true);
  assert.equal(ran(coverage, at(2, 4)), true);
});

test("files outside of the tree do not count, and a file that was never loaded did not run", () => {
  const coverage = merge([written(range(0, 6, 1))], "/elsewhere/");
  assert.equal(coverage.size, 0);
  assert.equal(ran(coverage, at(0, 6)), false);
});

test("the coverage of a real run has offsets of the TypeScript source", () => {
  const folder = mkdtempSync(join(tmpdir(), "coverage-"));
  try {
    const source =
      'const f = (a: string): string => (a === "ä" ? "yes" : "no");\nf("ä" as string);\nfunction g(): void { ' +
      'f("x"); }\n';
    writeFileSync(join(folder, "a.ts"), source);
    const env = { ...process.env, NODE_V8_COVERAGE: join(folder, "coverage") };
    assert.equal(spawnSync(process.execPath, [join(folder, "a.ts")], { env }).status, 0);
    assert.equal(readFileSync(join(folder, "a.ts"), "utf8"), source);
    writeFileSync(join(folder, "coverage", "coverage-killed.json"), '{"result":[');
    const coverage = readCoverage(join(folder, "coverage"), folder);
    const isRun = (text: string) => ran(coverage, at(source.indexOf(text), source.indexOf(text) + text.length));
    assert.deepEqual(['"yes"', '"no"', 'f("ä"', 'f("x")', "{ f("].map(isRun), [true, false, true, false, false]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
