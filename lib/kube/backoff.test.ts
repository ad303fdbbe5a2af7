import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createBackoff } from "./backoff.ts";

describe("backoff", () => {
  it("doubles up to the cap, and starts again after a reset", () => {
    const backoff = createBackoff(250, 5_000, () => 1);
    const pauses = Array.from({ length: 7 }, () => backoff.next());
    assert.deepEqual(pauses, [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000]);
    backoff.reset();
    assert.equal(backoff.next(), 250);
  });

  it("is shortened by up to a half, to spread replicas", () => {
    assert.equal(createBackoff(250, 5_000, () => 0).next(), 125);
  });

  it("is not shorter than Retry-After, up to a limit", () => {
    const backoff = createBackoff(250, 5_000, () => 0);
    assert.equal(backoff.next(7_000), 7_000);
    assert.equal(backoff.next(86_400_000), 60_000);
    assert.equal(backoff.next(1), 500);
    assert.equal(createBackoff(0, 0).next(), 0);
  });
});
