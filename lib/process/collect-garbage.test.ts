import assert from "node:assert/strict";
import { constants, PerformanceObserver } from "node:perf_hooks";
import { test } from "node:test";
import { collectGarbage } from "./collect-garbage.ts";

test("a process that started without --expose-gc collects all garbage, and gets no global gc", async () => {
  const { promise: collected, resolve } = Promise.withResolvers<void>();
  const observer = new PerformanceObserver((list) => {
    const all = constants.NODE_PERFORMANCE_GC_FLAGS_ALL_AVAILABLE_GARBAGE;
    const entries = list.getEntries() as unknown as { readonly detail: { readonly flags: number } }[];
    if (entries.some(({ detail }) => detail.flags & all)) resolve();
  });
  observer.observe({ entryTypes: ["gc"] });
  collectGarbage();
  await collected;
  observer.disconnect();
  assert.equal(globalThis.gc, undefined);
});
