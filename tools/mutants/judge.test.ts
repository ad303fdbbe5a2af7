import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { Baselines, RedBaseline } from "./baseline.ts";
import { graphOf } from "./graph.ts";
import { Judge, type Options } from "./judge.ts";
import { type Mutant, mutantsOf } from "./mutant.ts";
import type { Surroundings } from "./run-test.ts";

const folders: string[] = [];
after(() => {
  for (const folder of folders) rmSync(folder, { recursive: true });
});

function place(files: Record<string, string>): Surroundings {
  const tree = mkdtempSync(join(tmpdir(), "judge-"));
  folders.push(tree);
  for (const [file, text] of Object.entries(files)) writeFileSync(join(tree, file), text);
  return { tree, temp: tree, signal: new AbortController().signal };
}

const X =
  "export function f(a: number): number {\n  return a < 3 ? 1 : 2;\n}\nexport function g(): number {\n  return 7;\n}\n";
const mutant = (original: string, text: string): Mutant =>
  mutantsOf("x.ts", X).find((one) => one.original === original && one.text === text)!;
const KILLED = mutant("<", ">=");
const SURVIVES = mutant("<", "<=");
const UNCOVERED = mutant("7", "8");

const asTest = (body: string): string =>
  `import { test } from "node:test"; import fs from "node:fs"; import assert from "node:assert"; import { f } from ` +
  `"./x.ts";\ntest("of f", () => { ${body} });\n`;
const GOOD = asTest("assert.equal(f(1), 1);");

async function judge(one: Mutant, tests: Record<string, string>, options: Partial<Options> = {}) {
  const files = { "x.ts": X, ...tests };
  const sources = new Map(Object.entries(files));
  const isTest = (file: string) => file.endsWith(".test.ts");
  const here = place(files);
  const baselines = new Baselines(place(files));
  const judging = new Judge(sources, graphOf(sources), { baselines, isTest, ...options });
  const result = await judging.judge(one, here);
  assert.equal(readFileSync(join(here.tree, "x.ts"), "utf8"), X);
  return { ...result, flakyTests: await baselines.flaky() };
}

test("a mutant is killed by the first test that fails, and further ones do not run", async () => {
  const { outcome, by, tests } = await judge(KILLED, { "x.test.ts": GOOD, "y.test.ts": GOOD });
  assert.deepEqual({ outcome, by, tests }, { outcome: "killed", by: "x.test.ts: of f", tests: 1 });
});

test("a mutant survives tests that run it and pass", async () => {
  const { outcome, tests } = await judge(SURVIVES, { "x.test.ts": GOOD, "y.test.ts": GOOD });
  assert.deepEqual({ outcome, tests }, { outcome: "survived", tests: 2 });
});

test("text that no test runs is not covered, and no test runs for it unless all tests should run", async () => {
  const { outcome, tests } = await judge(UNCOVERED, { "x.test.ts": GOOD });
  assert.deepEqual({ outcome, tests }, { outcome: "not covered", tests: 0 });
  assert.equal((await judge(UNCOVERED, { "x.test.ts": GOOD }, { exhaustive: true })).outcome, "survived");
  assert.equal((await judge(UNCOVERED, {})).outcome, "not covered");
});

test("a test that is red without the mutant ends the run", async () => {
  const red = judge(KILLED, { "x.test.ts": asTest("assert.equal(f(1), 2);") });
  await assert.rejects(
    red,
    (error) => error instanceof RedBaseline && /x\.test\.ts is red .*of f/s.test(error.message),
  );
});

/** Fails at the first run in a tree. */
const ONCE = 'if (!fs.existsSync("ran")) { fs.writeFileSync("ran", ""); assert.fail(); }';

test("a test that is flaky without the mutant must fail twice with it", async () => {
  const { outcome, flaky, flakyTests } = await judge(SURVIVES, { "x.test.ts": asTest(`f(1); ${ONCE}`) });
  assert.deepEqual(
    { outcome, flaky, flakyTests },
    { outcome: "survived", flaky: ["x.test.ts: of f"], flakyTests: ["x.test.ts"] },
  );
});

test("with confirm, every test must fail twice", async () => {
  const files = { "x.test.ts": asTest(`if (f(1) !== 1) { ${ONCE} }`) };
  assert.equal((await judge(KILLED, files)).outcome, "killed");
  assert.equal((await judge(KILLED, files, { confirm: true })).outcome, "survived");
  assert.equal((await judge(KILLED, { "x.test.ts": GOOD }, { confirm: true })).outcome, "killed");
});

test("a mutant that hangs a test is a timeout", async () => {
  assert.equal((await judge(SURVIVES, { "x.test.ts": GOOD }, { timeoutOf: () => 1 })).outcome, "timeout");
});

test("a timeout does not count if the test needs more time even without the mutant", async () => {
  const timeouts = [1, 60_000, 60_000];
  const { outcome, flaky } = await judge(SURVIVES, { "x.test.ts": GOOD }, { timeoutOf: () => timeouts.shift() ?? 1 });
  assert.deepEqual({ outcome, flaky }, { outcome: "survived", flaky: ["x.test.ts: after 1 ms"] });
});
