import assert from "node:assert/strict";
import { test } from "node:test";
import { type Finding, findingsOf, worstOf } from "./findings.ts";
import { reportDocument, reportText } from "./report.ts";

const { ok, unknown, warning, broken } = findingsOf("x");
const GOOD = ok("a Service", "fine", "it is fine");

test("the report has the worst verdict of its findings; without findings it is ok", () => {
  const all: readonly [Finding[], string][] = [
    [[], "ok"],
    [[GOOD], "ok"],
    [[unknown("s", "c", "e"), GOOD], "unknown"],
    [[warning("s", "c", "e"), unknown("s", "c", "e")], "warning"],
    [[GOOD, broken("s", "c", "e"), warning("s", "c", "e")], "broken"],
  ];
  for (const [findings, verdict] of all) assert.equal(worstOf(findings), verdict);
});

test("renders one block per finding: verdict, subject and code, then the evidence, then each cure; the totals come last", () => {
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

test("the summary says that no problems were found only if all findings are ok", () => {
  assert.match(reportText([GOOD]), /1 ok: no problems found\n$/);
  const unsure = reportText([GOOD, unknown("s", "c", "e")]);
  assert.doesNotMatch(unsure, /no problems found\n/);
  assert.match(unsure, /no problems found; some checks could not be completed/);
});

test("escapes control characters and line breaks in text from tenants", () => {
  const text = reportText([warning("\u001b[2Jpod", "c", "a\nok  b: fine \u202e x\u2028y")]);
  assert.ok(text.includes(String.raw`\u001b[2Jpod`));
  assert.ok(text.includes(String.raw`a\u000aok  b: fine \u202e x\u2028y`));
});

test("the document has a count for every verdict", () => {
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
