import assert from "node:assert/strict";
import { test } from "node:test";
import { shortHash, spreadHash } from "./hash.ts";

test("shortHash is a prefix of SHA-256, so `sha256sum` can check it", () => {
  assert.equal(shortHash("abc"), "ba7816bf8f01");
  assert.equal(shortHash(""), "e3b0c44298fc");
});

test("spreadHash is the first 32 bits of SHA-256, and distributes names evenly", () => {
  assert.equal(spreadHash("abc"), 0xba7816bf);
  const counts = Array.from({ length: 16 }, () => 0);
  for (let index = 0; index < 16_000; index += 1) {
    const shard = spreadHash(`app-${index}.example.com`) % 16;
    counts[shard] = (counts[shard] ?? 0) + 1;
  }
  for (const count of counts) assert.ok(count > 850 && count < 1_150, counts.join(" "));
});
