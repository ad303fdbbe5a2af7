import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { promisify } from "node:util";

const folder = mkdtempSync(join(tmpdir(), "switchback-run-files-"));
after(() => rmSync(folder, { recursive: true }));

/**
 * What `runFiles` reports for a file with this text. It runs in another process, because a runner inside a test of a
 * runner runs nothing.
 */
async function outcomeOf(text: string, silenceMs: number): Promise<{ failed: string[]; skipped: string[] }> {
  const file = join(folder, `${Math.random().toString(36).slice(2)}.test.mjs`);
  const main = `${file}.main.mjs`;
  writeFileSync(file, text);
  writeFileSync(
    main,
    `import { runFiles } from ${JSON.stringify(join(import.meta.dirname, "run-files.ts"))};
     const outcome = await runFiles([${JSON.stringify(file)}], { concurrency: 1, silenceMs: ${silenceMs} });
     process.stderr.write(JSON.stringify(outcome), () => process.exit());`,
  );
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const { stderr } = await promisify(execFile)(process.execPath, [main], { env, timeout: 120_000 });
  return JSON.parse(stderr.slice(stderr.lastIndexOf("{")));
}

test("if a process of a test stays and holds its output, the runner names the file, and the run ends", async () => {
  const { failed } = await outcomeOf(
    `import { spawn } from "node:child_process";
     import { test } from "node:test";
     test("leaves a process", () => spawn("sleep", ["10"], { detached: true, stdio: "inherit" }).unref());`,
    3_000,
  );
  assert.equal(failed.length, 1, failed.join("; "));
  assert.match(failed[0] ?? "", /\.test\.mjs: no news for 3 s$/);
});

test("a failed test and a skipped test are named", async () => {
  // The skip is in the text of the test file that this test runs: the runner must name it.
  const { failed, skipped } = await outcomeOf(
    `import { test } from "node:test";
     test("breaks", () => { throw new Error("first line\\nsecond"); });
     test("later", { skip: true }, () => {});`,
    60_000,
  );
  assert.deepEqual([failed, skipped], [["breaks: first line"], ["later"]]);
});
