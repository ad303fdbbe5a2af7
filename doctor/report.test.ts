import assert from "node:assert/strict";
import { test } from "node:test";
import { type Finding, findingsOf, worstOf } from "./findings.ts";
import { reportDocument } from "./report.ts";

const { ok, unknown, warning, broken } = findingsOf("x");
const GOOD = ok("a Service", "fine", "it is fine");

test("the report has the worst status of its findings; without findings it is ok", () => {
  const all: readonly [Finding[], string][] = [
    [[], "ok"],
    [[GOOD], "ok"],
    [[unknown("s", "c", "e"), GOOD], "unknown"],
    [[warning("s", "c", "e"), unknown("s", "c", "e")], "warning"],
    [[GOOD, broken("s", "c", "e"), warning("s", "c", "e")], "broken"],
  ];
  for (const [findings, status] of all) assert.equal(worstOf(findings), status);
});

test("the document has a count for every status", () => {
  const { status, counts, findings } = reportDocument([GOOD, GOOD, warning("s", "c", "e", "cure")]);
  assert.deepEqual([status, counts], ["warning", { ok: 2, unknown: 0, warning: 1, broken: 0 }]);
  const all = [broken, unknown, unknown, broken, broken].map((report) => report("s", "c", "e"));
  assert.deepEqual(reportDocument(all).counts, { ok: 0, unknown: 2, warning: 0, broken: 3 });
  assert.deepEqual(reportDocument(all).findings, all);
  assert.deepEqual(findings[2], {
    check: "x",
    subject: "s",
    status: "warning",
    code: "c",
    evidence: "e",
    cures: ["cure"],
  });
});
