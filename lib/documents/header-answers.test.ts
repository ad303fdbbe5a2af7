import assert from "node:assert/strict";
import { test } from "node:test";
import { askedTexts } from "./header-answers.ts";

test("each answer has its own text; an answer of another version is shown unchanged, a port without one not", () => {
  for (const [answer, words] of [
    ["demands-v1", "demands v1"],
    ["demands-v2", "demands v2"],
    ["demands-either", "demands v1 or v2"],
    ["optional", "takes a header or none"],
    ["refuses-header", "refuses a header"],
    ["unknown", "gives no clear answer"],
    ["constructor", "constructor"],
  ] as const) {
    assert.deepEqual(askedTexts([{ port: 80 }, { port: 443, asked: { answer } }]), [`443 ${words}`]);
  }
});
