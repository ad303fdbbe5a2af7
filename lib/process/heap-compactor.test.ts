import assert from "node:assert/strict";
import { test } from "node:test";
import { createCompactor } from "./heap-compactor.ts";

test("garbage is collected once, after one whole period without activity", () => {
  let collected = 0;
  const compactor = createCompactor((() => {
    collected += 1;
  }) as unknown as NodeJS.GCFunction);
  compactor.collectIfIdle();
  compactor.collectIfIdle();
  assert.equal(collected, 0, "no activity yet");
  compactor.recordActivity();
  compactor.collectIfIdle();
  compactor.recordActivity();
  compactor.collectIfIdle();
  assert.equal(collected, 0, "still busy");
  compactor.collectIfIdle();
  compactor.collectIfIdle();
  compactor.collectIfIdle();
  assert.equal(collected, 1);
});

test("without --expose-gc nothing happens", () => {
  const compactor = createCompactor(undefined);
  compactor.recordActivity();
  compactor.collectIfIdle();
  compactor.collectIfIdle();
});
