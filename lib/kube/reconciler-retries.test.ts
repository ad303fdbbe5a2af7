import assert from "node:assert/strict";
import { test } from "node:test";
import { reconcilerRig, retries } from "#test/fakes/reconciler-rig.ts";
import { Reconciler } from "./reconciler.ts";
import { KubeStatusError } from "./status.ts";

test("a retry is not sooner than the API server's Retry-After", async () => {
  const { reported, retry } = retries();
  const { reconciler, begun, pass } = reconcilerRig({
    reconcile: () => {
      begun.push(begun.length);
      const busy = new KubeStatusError("PATCH", 429, { message: "", retryAfterMs: 30_000 });
      throw begun.length === 1 ? busy : new Error("refused");
    },
    retry,
  });
  reconciler.enqueue();
  await pass(29_999);
  assert.deepEqual([begun.length, reported], [1, [30_000]]);
  await pass(1);
  assert.deepEqual([begun.length, reported], [2, [30_000, 2_000]]);
  await reconciler.stop();
});

test("retries wait for the backoff, and a success resets it", async () => {
  const { reported, retry } = retries();
  const { reconciler, begun, pass, end, fail } = reconcilerRig({ retry });
  reconciler.enqueue();
  await pass(0);
  for (const ms of [1_000, 2_000, 4_000, 4_000]) {
    const runs = begun.length;
    await fail();
    await pass(ms - 1);
    assert.equal(begun.length, runs);
    await pass(1);
    assert.equal(begun.length, runs + 1);
  }
  await end({ requeueAfter: 0 });
  await pass(0);
  await fail();
  assert.deepEqual(reported, [1_000, 2_000, 4_000, 4_000, 1_000]);
});

test("a run that throws before it returns a promise is also a failure", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { reported, retry } = retries();
  let runs = 0;
  const reconcile = () => {
    runs += 1;
    throw new Error("refused");
  };
  const reconciler = new Reconciler({ reconcile, retry });
  reconciler.enqueue();
  t.mock.timers.tick(1);
  assert.deepEqual([runs, reported], [1, [1_000]]);
  t.mock.timers.tick(1_000);
  assert.deepEqual([runs, reported], [2, [1_000, 2_000]]);
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

test("an enqueue shortens a backoff, unless the backoff is held", async () => {
  for (const hold of [false, true]) {
    const { reconciler, begun, pass, fail } = reconcilerRig({ retry: retries(hold).retry });
    reconciler.enqueue();
    await pass(0);
    await fail();
    reconciler.enqueue(10);
    await pass(999);
    assert.deepEqual(begun, hold ? [0] : [0, 10]);
    await pass(1);
    assert.deepEqual(begun, hold ? [0, 1_000] : [0, 10]);
  }
});

test("an enqueue during a failing run waits for a held backoff", async () => {
  const { reconciler, begun, pass, fail } = reconcilerRig({ retry: retries(true).retry });
  reconciler.enqueue();
  await pass(0);
  reconciler.enqueue();
  await pass(100);
  await fail();
  await pass(999);
  assert.deepEqual(begun, [0]);
  await pass(1);
  assert.deepEqual(begun, [0, 1_100]);
});

test("forget ends a held backoff and resets it, but does not start a run without an enqueue", async () => {
  const { reported, retry } = retries(true);
  const { reconciler, begun, clock, pass, end, fail } = reconcilerRig({ retry });
  reconciler.enqueue();
  await pass(0);
  await fail();
  await pass(500);
  reconciler.enqueue();
  await pass(1);
  reconciler.forget();
  assert.deepEqual(begun, [0], "not in the middle of the caller");
  await pass(0);
  assert.deepEqual(begun, [0, 501]);
  await fail();
  assert.deepEqual(reported, [1_000, 1_000]);
  reconciler.forget();
  await pass(0);
  assert.equal(begun.length, 2);
  await pass(1_000);
  await end();
  reconciler.forget();
  await pass(10_000);
  assert.deepEqual([begun.length, clock.pending], [3, 0]);
});
