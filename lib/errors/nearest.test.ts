import assert from "node:assert/strict";
import { test } from "node:test";
import { nearest } from "./nearest.ts";

const SETTINGS = "log.level, log.format, webhook.port, webhook.healthPort, proxy.port, map.shards, strict".split(", ");

test("a few known words are all shown", () => {
  assert.equal(nearest("x", ["a", "b"], "page.md"), "a, b");
  assert.equal(nearest("x", [], "page.md"), "none");
});

for (const [word, ...expected] of [
  ["webhook.prot", "webhook.port", "webhook.healthPort"],
  ["LEVEL", "log.level"],
  ["port", "proxy.port", "webhook.port", "webhook.healthPort"],
  ["", "log.level"],
  ["x".repeat(1e6)],
] as const) {
  test(`of many words, the nearest to ${word.slice(0, 20)} come first, and the text says where the others are`, () => {
    const [, words = ""] = /^(.*) and 4 more \(page\.md\)$/.exec(nearest(word, SETTINGS, "page.md")) ?? [];
    assert.deepEqual(words.split(", ").slice(0, expected.length), expected);
    assert.equal(words.split(", ").length, 3);
  });
}
