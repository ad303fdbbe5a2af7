import assert from "node:assert/strict";
import { constants, PerformanceObserver } from "node:perf_hooks";
import { test } from "node:test";
import { createCompactor } from "./heap-compactor.ts";

test("garbage is collected once, after one whole period without activity", () => {
  let collected = 0;
  const compactor = createCompactor(() => {
    collected += 1;
  });
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

test("a process that started without --expose-gc collects all garbage, and gets no global gc", async () => {
  const { promise: collected, resolve } = Promise.withResolvers<void>();
  const observer = new PerformanceObserver((list) => {
    const all = constants.NODE_PERFORMANCE_GC_FLAGS_ALL_AVAILABLE_GARBAGE;
    const entries = list.getEntries() as unknown as { readonly detail: { readonly flags: number } }[];
    if (entries.some(({ detail }) => detail.flags & all)) resolve();
  });
  observer.observe({ entryTypes: ["gc"] });
  const compactor = createCompactor();
  compactor.recordActivity();
  compactor.collectIfIdle();
  compactor.collectIfIdle();
  await collected;
  observer.disconnect();
  assert.equal(globalThis.gc, undefined);
});
