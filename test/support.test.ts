import assert from "node:assert/strict";
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { recordRun, SUPPORT_FILE, supportRuns } from "./support.ts";

const folder = mkdtempSync(join(tmpdir(), "switchback-support-"));
after(() => rmSync(folder, { recursive: true }));

test("a run is added to the file, a later run of the same command replaces it, and the comment stays", () => {
  const file = join(folder, "support.yaml");
  copyFileSync(SUPPORT_FILE, file);
  const before = supportRuns(file);
  const run = { what: "Thing", version: "v1.9.0", passed: "all", command: "npm run thing" };
  recordRun(run, file);
  recordRun({ ...run, what: "Other" }, file);
  recordRun({ ...run, version: "v1.10.0" }, file);
  const [thing, other, ...rest] = supportRuns(file).slice(before.length);
  assert.deepEqual([thing?.version, other?.what, rest.length], ["v1.10.0", "Other", 0]);
  assert.match(thing?.day ?? "", /^\d{4}-\d\d-\d\d$/);
  const comment = (text: string) => text.split("\n").filter((line) => line.startsWith("#"));
  assert.deepEqual(comment(readFileSync(file, "utf8")), comment(readFileSync(SUPPORT_FILE, "utf8")));
});
