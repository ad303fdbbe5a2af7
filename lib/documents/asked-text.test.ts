import assert from "node:assert/strict";
import { test } from "node:test";
import { askedTexts } from "./asked-text.ts";

const NOW = Date.parse("2026-01-03T00:00:00Z");
const asked = (answer: string, at: string) => ({ port: 443, asked: { answer, at, asker: "10.0.0.7" } });

test("each answer has its own text, and an answer of another version is shown unchanged", () => {
  const at = "2026-01-02T23:56:10Z";
  for (const [answer, words] of [
    ["demands-v1", "demands v1"],
    ["demands-v2", "demands v2"],
    ["demands-either", "demands v1 or v2"],
    ["optional", "takes a header or none"],
    ["refuses-header", "refuses a header"],
    ["unknown", "gives no clear answer"],
    ["constructor", "constructor"],
  ] as const) {
    assert.deepEqual(askedTexts([asked(answer, at)], NOW), [`443 ${words}, 3 min ago, from 10.0.0.7`]);
  }
});

test("an age is shown in a suitable unit; a time in the future is shown as just now", () => {
  for (const [at, age] of [
    ["2026-01-03T00:00:30Z", "just now"],
    ["2026-01-02T23:59:01Z", "just now"],
    ["2026-01-02T23:59:00Z", "1 min ago"],
    ["2026-01-02T23:00:01Z", "59 min ago"],
    ["2026-01-02T23:00:00Z", "1 h ago"],
    ["2026-01-01T00:00:01Z", "47 h ago"],
    ["2026-01-01T00:00:00Z", "2 days ago"],
    ["soon", "at soon"],
  ] as const) {
    assert.deepEqual(askedTexts([asked("optional", at)], NOW), [`443 takes a header or none, ${age}, from 10.0.0.7`]);
  }
});

test("without a clock the time itself is shown; a port without an answer has no text", () => {
  const at = "2026-01-02T23:56:10Z";
  assert.deepEqual(askedTexts([{ port: 80 }, asked("demands-v1", at)], undefined), [
    `443 demands v1, at ${at}, from 10.0.0.7`,
  ]);
});
