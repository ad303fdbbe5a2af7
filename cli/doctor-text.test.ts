import assert from "node:assert/strict";
import { test } from "node:test";
import { findingsOf } from "#doctor/findings.ts";
import { plain } from "#test/fakes/cli.ts";
import { doctorText as painted } from "./doctor-text.ts";
import { paint } from "./output.ts";

const { ok, unknown, warning, broken } = findingsOf("x");
const doctorText = (...args: Parameters<typeof painted>) => plain(painted(...args));
const GOOD = ok("a Service", "fine", "it is fine");

test("renders a block per finding: status, subject, code, evidence and each cure; the totals come last", () => {
  const others = [unknown("a node", "shy", "it hides"), warning("a Job", "late", "it is late", "wait")];
  const text = doctorText([GOOD, broken("a pod", "sick", "it coughs", "rest", "tea"), ...others]);
  assert.equal(
    text,
    `ok       a Service: fine
         it is fine
BROKEN   a pod: sick
         it coughs
         cure: rest
         cure: tea
unknown  a node: shy
         it hides
warning  a Job: late
         it is late
         cure: wait

1 broken, 1 warning, 1 unknown, 1 ok
`,
  );
  assert.equal(doctorText([]), "\n0 broken, 0 warning, 0 unknown, 0 ok: no problems found\n");
});

test("the summary says that no problems were found only if all findings are ok", () => {
  assert.match(doctorText([GOOD]), /1 ok: no problems found\n$/);
  const unsure = doctorText([GOOD, unknown("s", "c", "e")]);
  assert.doesNotMatch(unsure, /no problems found\n/);
  assert.match(unsure, /no problems found; some checks could not be completed/);
});

test("escapes control characters and line breaks in text from tenants", () => {
  const text = doctorText([warning("\u001b[2Jpod", "c", "a\nok  b: fine \u202e x\u2028y")]);
  assert.ok(text.includes(String.raw`\u001b[2Jpod`));
  assert.ok(text.includes(String.raw`a\u000aok  b: fine \u202e x\u2028y`));
});

test("colours only the status, nothing that comes from the cluster", () => {
  const text = painted([broken("a \u001b[31mpod", "sick", "it coughs")], 40);
  assert.equal(text.split("\n")[0], `${paint("bad", "BROKEN ")}  ${String.raw`a \u001b[31mpod`}: sick`);
  assert.equal(text.split("\u001b").length, 3);
});
