import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { type Baseline, BaselineCache } from "./baseline-cache.ts";
import { graphOf } from "./graph.ts";

const folder = mkdtempSync(join(tmpdir(), "baseline-cache-"));
after(() => rmSync(folder, { recursive: true }));

const SOURCES = { "a/x.test.ts": 'import "./x.ts";', "a/x.ts": 'import "./y.ts";', "a/y.ts": "1;", "a/z.ts": "2;" };
const TEST = "a/x.test.ts";

function cacheOf(changes: Record<string, string> = {}, others = "others"): BaselineCache {
  const sources = new Map(Object.entries({ ...SOURCES, ...changes }));
  return new BaselineCache(folder, graphOf(sources), sources, others);
}

const BASELINE: Baseline = { ms: 7, isFlaky: true, coverage: new Map([["a/x.ts", [[0, 4]]]]) };

test("a baseline is valid until a file that its test reaches changes, or one that is not TypeScript", () => {
  assert.equal(cacheOf().get(TEST), undefined);
  cacheOf().set(TEST, BASELINE);
  assert.deepEqual(cacheOf().get(TEST), BASELINE);
  assert.deepEqual(cacheOf({ "a/z.ts": "3;" }).get(TEST), BASELINE);
  assert.equal(cacheOf({ "a/y.ts": "3;" }).get(TEST), undefined);
  assert.equal(cacheOf({ [TEST]: 'import "./x.ts"; 1;' }).get(TEST), undefined);
  assert.equal(cacheOf({}, "changed").get(TEST), undefined);
});

test("coverage of files that are not sources is left out", () => {
  const coverage = new Map([...BASELINE.coverage, ["node_modules/b.js", [[0, 1]]]]) as Baseline["coverage"];
  cacheOf().set(TEST, { ...BASELINE, coverage });
  assert.deepEqual(cacheOf().get(TEST), BASELINE);
});

test("an incomplete file is ignored", () => {
  cacheOf().set(TEST, BASELINE);
  writeFileSync(join(folder, "a-x.test.ts.json"), '{"key":');
  assert.equal(cacheOf().get(TEST), undefined);
});
