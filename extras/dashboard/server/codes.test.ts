import assert from "node:assert/strict";
import { test } from "node:test";
import { ownFile } from "#cli/own-files.ts";
import { adviceIn } from "./codes.ts";

test("each code gets the cause and remedy of the first row that names it", () => {
  const page =
    "# Title\n| code | cause | remedy |\n|---|---|---|\n| `a`, `b` | one `x` | two |\n| `a` | three | four |\n";
  const row = { cause: "one `x`", remedy: "two" };
  assert.deepEqual(adviceIn(page), { a: row, b: row });
});

test("the page has advice on the codes of docs/codes.md", () => {
  const advice = adviceIn(ownFile("docs/codes.md"));
  assert.ok(Object.keys(advice).length > 250);
  for (const [code, { cause, remedy }] of Object.entries(advice))
    assert.ok(cause && remedy && !remedy.endsWith("|"), code);
  assert.match(advice["no-target"]?.remedy ?? "", /config\.targets/);
});
