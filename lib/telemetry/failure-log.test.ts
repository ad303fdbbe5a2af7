import assert from "node:assert/strict";
import { test } from "node:test";
import { LineLog } from "#test/fakes/clock.ts";
import { FailureLog } from "./failure-log.ts";

test("a failure is one line for each reason, and one when it works again, whatever happens in between", () => {
  const log = new LineLog();
  const failures = new FailureLog(log, "error");
  const code = { code: "publish-failed" };
  failures.worked("map");
  for (const text of ["503", "503", "403", "403"]) failures.failed("map", code, text);
  failures.failed("other", { code: "x" }, "503");
  failures.worked("map");
  failures.worked("map");
  failures.failed("map", code, "403");
  assert.deepEqual(
    log.lines.map(({ level, fields, message }) => [level, fields, message]),
    [
      ["error", code, "503"],
      ["error", code, "403"],
      ["error", { code: "x" }, "503"],
      ["info", code, "it works again"],
      ["error", code, "403"],
    ],
  );
});
