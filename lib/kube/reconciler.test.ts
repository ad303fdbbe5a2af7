import assert from "node:assert/strict";
import { test } from "node:test";
import { stopTime } from "#test/fakes/stopped-time.ts";
import { createBackoff } from "./backoff.ts";
import { Reconciler } from "./reconciler.ts";
import { KubeStatusError } from "./status.ts";

// reconciler.property.test.ts has the rules for when runs begin.

const retry = { backoff: createBackoff(1_000, 4_000), onError: () => {} };

test("a retry is not sooner than the API server's Retry-After", async (t) => {
  const pass = stopTime(t, 1_000);
  let runs = 0;
  const reconciler = new Reconciler({
    reconcile: () => {
      runs += 1;
      throw new KubeStatusError("PATCH", 429, { message: "", retryAfterMs: 30_000 });
    },
    retry,
  });
  reconciler.enqueue();
  await pass(29_000);
  assert.equal(runs, 1);
  await pass(2_000);
  assert.equal(runs, 2);
  await reconciler.stop();
});

test("a wait beyond the limit of timers does not end at once", async (t) => {
  const { mock } = t.mock.method(globalThis, "setTimeout");
  const reconciler = new Reconciler({ reconcile: () => assert.fail() });
  reconciler.enqueue(40 * 24 * 3_600_000);
  await reconciler.stop();
  assert.equal(mock.calls[0]?.arguments[1], 2 ** 31 - 1);
});

test("without retry an error is not swallowed, and later enqueues still run", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let runs = 0;
  const reconcile = () => {
    runs += 1;
    throw new Error("a defect");
  };
  const reconciler = new Reconciler({ reconcile });
  reconciler.enqueue(1);
  assert.throws(() => t.mock.timers.tick(1), /a defect/);
  reconciler.enqueue(1);
  assert.throws(() => t.mock.timers.tick(1), /a defect/);
  assert.equal(runs, 2);
});
