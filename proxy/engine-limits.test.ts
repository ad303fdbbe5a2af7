import assert from "node:assert/strict";
import { test } from "node:test";
import { clampToFileLimit, readProcessLimits } from "./engine-limits.ts";

function limits(soft: string): string {
  return [
    "Limit                     Soft Limit           Hard Limit           Units\n",
    `Max open files            ${soft.padEnd(20)} 1048576              files\n`,
  ].join("");
}

const cases: [string, string, number][] = [
  ["plenty of files", limits("1048576"), 10_000],
  ["1024 files", limits("1024"), 480],
  ["just enough files", limits("20064"), 10_000],
  ["one file short", limits("20063"), 9_999],
  ["hardly any files", limits("10"), 1],
  ["no limit", limits("unlimited"), 10_000],
  ["unknown limits", "", 10_000],
];

for (const [title, text, expected] of cases) {
  test(`${title}: ${expected} of 10,000 connections`, () => assert.equal(clampToFileLimit(10_000, text), expected));
}

test("this process's own limits can be read", () => {
  assert.match(readProcessLimits(), /^Max open files/m);
});
