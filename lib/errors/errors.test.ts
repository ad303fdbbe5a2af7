import assert from "node:assert/strict";
import { test } from "node:test";
import { describeError, hasCode, SwitchbackError, statusOf } from "./errors.ts";

test("an error has its code, its status and its cause", () => {
  const cause = new Error("socket hang up");
  const error = new SwitchbackError("kube-status", "GET /api: 404", { status: 404, cause });
  assert.deepEqual([error.name, error.code, error.status], ["SwitchbackError", "kube-status", 404]);
  assert.equal(error.cause, cause);
  assert.ok(!Object.hasOwn(new SwitchbackError("config-invalid", "x"), "cause"));
});

test("hasCode and statusOf consider only a SwitchbackError", () => {
  const error = new SwitchbackError("kube-status", "x", { status: 409 });
  assert.equal(hasCode(error, "kube-status"), true);
  assert.equal(hasCode(error, "kube-expired"), false);
  assert.equal(hasCode(Object.assign(new Error("x"), { code: "kube-status" }), "kube-status"), false);
  assert.equal(statusOf(error), 409);
  assert.equal(statusOf(Object.assign(new Error("x"), { status: 409 })), undefined);
});

const loop = new Error("a");
loop.cause = new Error("b", { cause: loop });

const DESCRIBED: ReadonlyArray<readonly [what: string, error: unknown, expected: string]> = [
  ["a chain", new Error("a", { cause: new Error("b", { cause: "c" }) }), "a: b: c"],
  ["a value that is not an error", "text", "text"],
  ["undefined", undefined, ""],
  ["null", null, "null"],
  ["an error without a message", new TypeError(), "TypeError"],
  [
    "several attempts of one connection",
    new Error("cannot reach", {
      cause: new AggregateError([new Error("ECONNREFUSED ::1"), new Error("ECONNREFUSED 127.0.0.1")]),
    }),
    "cannot reach: ECONNREFUSED ::1, ECONNREFUSED 127.0.0.1",
  ],
  ["several errors under one message", new AggregateError([new Error("a")], "all failed"), "all failed"],
  ["more than one line", new Error("a\r\n  at b\nc"), "a at b c"],
  ["a cyclic chain", loop, "a: b: a: b: a: b: a: b: a"],
];
for (const [what, error, expected] of DESCRIBED) {
  test(`describeError on one line: ${what}`, () => assert.equal(describeError(error), expected));
}
