import assert from "node:assert/strict";
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { createLogger } from "./log.ts";

test("a line is JSON with level, time, component, fields and message, and line breaks in fields are escaped", () => {
  const lines: string[] = [];
  const log = createLogger({ level: "info" }, "agent", (line) => lines.push(line));
  log.warn({ pod: "shop/a\nb", count: 2 }, "not written");
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? "", /^[^\n]*\n$/);
  const { time, ...rest } = JSON.parse(lines[0] ?? "");
  assert.deepEqual(rest, { level: "warn", component: "agent", pod: "shop/a\nb", count: 2, msg: "not written" });
  assert.match(time, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
});

test("a line cannot control a terminal, and its JSON value is unchanged", () => {
  const lines: string[] = [];
  const log = createLogger({ level: "info" }, "agent", (line) => lines.push(line));
  const pod = "a\u001b[2J\u009b2J\u202e\u2028\u{e0001}";
  log.warn({ pod }, "odd");
  assert.match(lines[0] ?? "", /^[ -~]+\n$/);
  assert.equal(JSON.parse(lines[0] ?? "").pod, pod);
});

for (const [level, written] of [
  ["trace", "debug info warn error"],
  ["debug", "debug info warn error"],
  ["info", "info warn error"],
  ["warn", "warn error"],
  ["error", "error"],
] as const) {
  test(`with the level ${level} are written: ${written}`, () => {
    const lines: string[] = [];
    const log = createLogger({ level }, "agent", (line) => lines.push(line));
    for (const name of ["debug", "info", "warn", "error"] as const) log[name]({}, name);
    assert.deepEqual(
      lines.map((line) => JSON.parse(line)).map(({ level, msg }) => [level, msg]),
      written.split(" ").map((name) => [name, name]),
    );
  });
}

/**
 * Starts a process that runs `script` when its standard input ends. The script has a logger on the real standard
 * error.
 */
function logging(script: string): ChildProcessByStdio<Writable, Readable, Readable> {
  const source = `
    import { Socket } from "node:net";
    import { createLogger } from "./log.ts";
    const log = createLogger({ level: "info" }, "agent");
    for await (const _ of process.stdin);
    ${script}`;
  const args = ["--input-type=module", "--eval", source];
  return spawn(process.execPath, args, { cwd: import.meta.dirname, stdio: ["pipe", "pipe", "pipe"] });
}

test("lines go to standard error at once, and nothing else goes there", async () => {
  // The process is killed at once. A line that it had not written by then would be lost.
  const child = logging(
    `log.debug({}, "none"); log.info({ count: 2 }, "one"); log.error({ pod: "\\u009b\\u202e" }, "two"); ` +
      `process.kill(process.pid, "SIGKILL");`,
  );
  child.stdin.end();
  const [out, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  assert.equal(out, "");
  assert.doesNotMatch(errors, /[\u0080-\uffff]/);
  const lines = errors
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    lines.map(({ time: _, ...rest }) => rest),
    [
      { level: "info", component: "agent", count: 2, msg: "one" },
      { level: "error", component: "agent", pod: "\u009b\u202e", msg: "two" },
    ],
  );
});

test("a closed standard error ends no component: the lines are lost", async () => {
  const child = logging(`log.info({}, "lost"); process.stdout.write("goes on");`);
  child.stderr.destroy();
  await once(child.stderr, "close");
  child.stdin.end();
  assert.equal(await text(child.stdout), "goes on");
});

test("the logger waits for a slow reader, but not forever", async () => {
  // A socket of Node makes the file descriptor non-blocking. Another process with the same log may do that, too.
  const child = logging(`
    new Socket({ fd: 2 });
    log.info({ filler: "x".repeat(1 << 22) }, "more than a pipe holds");
    process.stdout.write("goes on");
    process.exit();`);
  child.stdin.end();
  assert.equal(await text(child.stdout), "goes on");
});
