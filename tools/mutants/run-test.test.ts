import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { runTest } from "./run-test.ts";

const tree = mkdtempSync(join(tmpdir(), "run-test-"));
const place = { tree, temp: tree, signal: new AbortController().signal };
after(() => rmSync(tree, { recursive: true }));

async function runText(text: string, { timeoutMs = 60_000, signal = place.signal } = {}) {
  writeFileSync(join(tree, "a.test.ts"), `import { test } from "node:test"; import fs from "node:fs";\n${text}`);
  return await runTest("a.test.ts", { ...place, signal }, { timeoutMs });
}

test("green: every test passes, or fails as a todo", async () => {
  const run = await runText('test("a", () => {}); test("b", { todo: true }, () => { throw new Error("c"); });');
  assert.equal(run.outcome, "green");
});

test("red: the first test that fails ends the run", async () => {
  const run = await runText(
    'test("a", (t) => t.test("b", () => { throw new Error(); })); test("hangs", () => new Promise((resolve) => ' +
      "setTimeout(resolve, 1e9)));",
  );
  assert.equal(run.outcome, "red");
  assert.equal(run.detail, "b");
});

test("red: a file that ends before its first test, with its output", async () => {
  const run = await runText('throw new Error("out of order");');
  assert.equal(run.outcome, "red");
  assert.match(run.detail, /^ended by 1: .*out of order/s);
});

test("a test's own output does not make it red, and of a long output the end is kept", async () => {
  const loud = 'console.log("it said: not ok 1 - a"); console.log("b".repeat(5000)); console.log("the end");';
  assert.equal((await runText(loud)).outcome, "green");
  assert.match((await runText(`${loud} process.exitCode = 3;`)).detail, /^ended by 3: b{1900,}\nthe end/);
});

test("a run that takes too long is a timeout", async () => {
  assert.equal((await runText("setInterval(() => {}, 1e6);", { timeoutMs: 1 })).outcome, "timeout");
});

test("processes that a test leaves running end with it, even if they keep the output open", async () => {
  const run = await runText(`
    const { spawn } = await import("node:child_process");
    const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1e6)"], { stdio: "inherit" });
    child.unref();
    fs.writeFileSync("pid", String(child.pid));`);
  assert.equal(run.outcome, "green");
  const state = `/proc/${readFileSync(join(tree, "pid"), "utf8")}/stat`;
  // An ended process is a zombie until its new parent has noticed. Only the parent gets an event when it ends.
  const ended = (): boolean => {
    try {
      return / Z /.test(readFileSync(state, "utf8"));
    } catch {
      return true;
    }
  };
  for (let tries = 0; tries < 1_000 && !ended(); tries++) await new Promise((resolve) => setTimeout(resolve, 10));
  assert.ok(ended());
});

test("an abort ends the run and rejects", async () => {
  const stopping = new AbortController();
  const run = runText("setInterval(() => {}, 1e6);", { signal: stopping.signal });
  stopping.abort(new Error("enough"));
  await assert.rejects(run, /enough/);
  await assert.rejects(runText("", { signal: stopping.signal }), /enough/);
});
