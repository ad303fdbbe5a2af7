import assert from "node:assert/strict";
import { test } from "node:test";
import { createCompactor } from "./compactor.ts";

test("garbage is collected once, when a whole while has passed without work", () => {
  let collected = 0;
  const compactor = createCompactor((() => {
    collected += 1;
  }) as unknown as NodeJS.GCFunction);
  compactor.rest();
  compactor.rest();
  assert.equal(collected, 0, "nothing was done yet");
  compactor.worked();
  compactor.rest();
  compactor.worked();
  compactor.rest();
  assert.equal(collected, 0, "still busy");
  compactor.rest();
  compactor.rest();
  compactor.rest();
  assert.equal(collected, 1);
});

test("without --expose-gc nothing happens", () => {
  const compactor = createCompactor(undefined);
  compactor.worked();
  compactor.rest();
  compactor.rest();
});
