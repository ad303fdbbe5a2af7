import assert from "node:assert/strict";
import { test } from "node:test";
import { type Finding, findingsOf, worstOf } from "./findings.ts";
import { reportDocument, reportText } from "./report.ts";

const { ok, unknown, warning, broken } = findingsOf("x");
const GOOD = ok("a Service", "fine", "it is fine");

test("the worst verdict is the report's; nothing at all is ok", () => {
  const all: readonly [Finding[], string][] = [
    [[], "ok"],
    [[GOOD], "ok"],
    [[unknown("s", "c", "e"), GOOD], "unknown"],
    [[warning("s", "c", "e"), unknown("s", "c", "e")], "warning"],
    [[GOOD, broken("s", "c", "e"), warning("s", "c", "e")], "broken"],
  ];
  for (const [findings, verdict] of all) assert.equal(worstOf(findings), verdict);
});

test("a block a finding: verdict, subject and code, then the evidence, then each cure; the sum comes last", () => {
  const text = reportText([GOOD, broken("a pod", "sick", "it coughs", "rest", "tea")]);
  assert.equal(
    text,
    `ok       a Service: fine
         it is fine
BROKEN   a pod: sick
         it coughs
         cure: rest
         cure: tea

1 broken, 0 warning, 0 unknown, 1 ok
`,
  );
});

test("all is well only when all is ok", () => {
  assert.match(reportText([GOOD]), /1 ok: all is well\n$/);
  const unsure = reportText([GOOD, unknown("s", "c", "e")]);
  assert.doesNotMatch(unsure, /all is well/);
  assert.match(unsure, /nothing is broken, as far as could be seen/);
});

test("what a tenant wrote steers no terminal, and adds no line", () => {
  const text = reportText([warning("\u001b[2Jpod", "c", "a\nok  b: fine \u202e x\u2028y")]);
  assert.ok(text.includes(String.raw`\u001b[2Jpod`));
  assert.ok(text.includes(String.raw`a\u000aok  b: fine \u202e x\u2028y`));
});

test("the document counts every verdict", () => {
  const { verdict, counts, findings } = reportDocument([GOOD, GOOD, warning("s", "c", "e", "cure")]);
  assert.deepEqual([verdict, counts], ["warning", { ok: 2, unknown: 0, warning: 1, broken: 0 }]);
  assert.deepEqual(findings[2], {
    check: "x",
    subject: "s",
    verdict: "warning",
    code: "c",
    evidence: "e",
    cures: ["cure"],
  });
});
