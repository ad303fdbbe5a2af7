import assert from "node:assert/strict";
import { test } from "node:test";
import { createPlainLogger } from "./plain-log.ts";

test("a line is JSON with level, time, component, the fields and the message, and has no line break from a field", () => {
  const lines: string[] = [];
  const log = createPlainLogger("info", "agent", (line) => lines.push(line));
  log.warn({ pod: "shop/a\nb", count: 2 }, "not written");
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? "", /^[^\n]*\n$/);
  const { time, ...rest } = JSON.parse(lines[0] ?? "");
  assert.deepEqual(rest, { level: "warn", component: "agent", pod: "shop/a\nb", count: 2, msg: "not written" });
  assert.match(time, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
});

test("lines below the level are not written", () => {
  const lines: string[] = [];
  const log = createPlainLogger("warn", "agent", (line) => lines.push(line));
  log.debug({}, "a");
  log.info({}, "b");
  log.error({}, "c");
  assert.deepEqual(
    lines.map((line) => JSON.parse(line).msg),
    ["c"],
  );
});
