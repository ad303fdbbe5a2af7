import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "#test/fakes/clock.ts";
import { reconcilerRig, retries } from "#test/fakes/reconciler-rig.ts";
import { isSettled } from "#test/fakes/stopped-time.ts";
import { Reconciler } from "./reconciler.ts";

test("nothing runs without an enqueue", async () => {
  const { begun, clock, pass } = reconcilerRig();
  await pass(10_000);
  assert.deepEqual([begun, clock.pending], [[], 0]);
});

test("a run begins when the earliest enqueue is due, and also satisfies the later ones", async () => {
  const { reconciler, begun, clock, pass, end } = reconcilerRig();
  for (const ms of [500, 300, 400, 300]) reconciler.enqueue(ms);
  await pass(100);
  reconciler.enqueue(250);
  await pass(199);
  assert.deepEqual(begun, []);
  await pass(1);
  assert.deepEqual(begun, [300]);
  await end();
  await pass(10_000);
  assert.deepEqual([begun, clock.pending], [[300], 0]);
});

test("an earlier enqueue does not delay one that is due sooner", async () => {
  const { reconciler, begun, pass } = reconcilerRig();
  reconciler.enqueue(1_000);
  await pass(100);
  reconciler.enqueue(10);
  await pass(10);
  assert.deepEqual(begun, [110]);
});

test("frequent enqueues do not delay a run, and do not start a timer each", async () => {
  const { reconciler, begun, clock, pass } = reconcilerRig();
  for (let passed = 0; passed < 50; passed += 10) {
    reconciler.enqueue(50);
    assert.equal(clock.pending, 1);
    await pass(10);
  }
  assert.deepEqual(begun, [50]);
});

test("an enqueue during a run leads to one more run, right afterwards or when it is due", async () => {
  const { reconciler, begun, pass, end } = reconcilerRig();
  reconciler.enqueue();
  await pass(100);
  reconciler.enqueue();
  reconciler.enqueue();
  await pass(100);
  assert.deepEqual(begun, [0], "one run at a time");
  await end();
  assert.deepEqual(begun, [0, 200]);
  reconciler.enqueue(500);
  await end();
  await pass(1_000);
  assert.deepEqual(begun, [0, 200, 700]);
  await end();
  await pass(1_000);
  assert.equal(begun.length, 3);
});

test("requeueAfter counts from the end of the run, and an earlier enqueue takes precedence", async () => {
  const { reconciler, begun, pass, end } = reconcilerRig();
  reconciler.enqueue();
  await pass(100);
  await end({ requeueAfter: 1_000 });
  await pass(1_000);
  assert.deepEqual(begun, [0, 1_100]);
  await end({ requeueAfter: 1_000 });
  reconciler.enqueue(10);
  await pass(10);
  assert.deepEqual(begun, [0, 1_100, 1_110]);
  await end({ requeueAfter: undefined });
  await pass(10_000);
  assert.equal(begun.length, 3, "the run satisfied the requeue too");
});

test("a run that ends when it returns runs in the timer's callback", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let runs = 0;
  const reconciler = new Reconciler({
    reconcile: () => {
      runs += 1;
      if (runs === 1) reconciler.enqueue(5);
      return runs === 2 ? { requeueAfter: 7 } : undefined;
    },
  });
  reconciler.enqueue(5);
  assert.equal(runs, 0);
  t.mock.timers.tick(5);
  assert.equal(runs, 1);
  t.mock.timers.tick(5);
  assert.equal(runs, 2);
  t.mock.timers.tick(7);
  assert.equal(runs, 3);
  t.mock.timers.tick(100_000);
  assert.equal(runs, 3);
});

test("no run begins in the pause after a run, whatever its result and whatever is enqueued", async () => {
  let pauseMs = 100;
  const { reconciler, begun, pass, end, fail } = reconcilerRig({ pauseMs: () => pauseMs, retry: retries().retry });
  reconciler.enqueue();
  await pass(0);
  reconciler.enqueue();
  await end({ requeueAfter: 0 });
  reconciler.enqueue();
  await pass(99);
  assert.deepEqual(begun, [0], "the first one waits for none");
  await pass(1);
  assert.deepEqual(begun, [0, 100]);
  pauseMs = 200;
  await fail();
  reconciler.enqueue();
  await pass(199);
  assert.equal(begun.length, 2);
  await pass(1);
  assert.deepEqual(begun, [0, 100, 300]);
  pauseMs = 1;
  reconciler.enqueue();
  await end();
  assert.equal(begun.length, 3);
  await pass(1);
  assert.deepEqual(begun, [0, 100, 300, 301]);
  await end();
  await pass(10_000);
  assert.equal(begun.length, 4);
});

test("idle waits for current and pending runs, however long they are delayed", async () => {
  const { reconciler, pass, end, fail } = reconcilerRig({ pauseMs: () => 50, retry: retries(true).retry });
  assert.equal(await isSettled(reconciler.idle()), true);
  reconciler.enqueue(10);
  const idle = reconciler.idle();
  await pass(10);
  reconciler.enqueue();
  await pass(1);
  await end();
  assert.equal(await isSettled(idle), false, "the next run is due, and held back by the pause");
  await pass(50);
  await fail();
  assert.equal(await isSettled(idle), false, "a retry is waited for");
  await pass(1_000);
  await end({ requeueAfter: 100 });
  assert.equal(await isSettled(idle), false, "a requeue is waited for");
  await pass(100);
  assert.equal(await isSettled(idle), false, "the last run has not ended");
  await end();
  assert.equal(await isSettled(idle), true);
  reconciler.enqueue(10);
  assert.equal(await isSettled(reconciler.idle()), false, "it counts from when it is asked");
});

test("stop resolves idle at once, or when the current run ends", async () => {
  for (const state of ["wait", "held", "run"] as const) {
    const { reconciler, pass, end, fail } = reconcilerRig({ retry: retries(true).retry });
    reconciler.enqueue(10);
    if (state !== "wait") {
      await pass(10);
      reconciler.enqueue();
      await pass(1);
    }
    if (state === "held") await fail();
    const idle = reconciler.idle();
    assert.equal(await isSettled(idle), false);
    void reconciler.stop();
    assert.equal(await isSettled(idle), state !== "run");
    await end();
    assert.equal(await isSettled(idle), true);
  }
});

test("stop waits for the current run, and no run begins afterwards", async () => {
  for (const ends of ["end", "fail"] as const) {
    const { reported, retry } = retries();
    const { reconciler, begun, clock, pass, ...rest } = reconcilerRig({ retry, pauseMs: () => 50 });
    reconciler.enqueue();
    await pass(0);
    reconciler.enqueue();
    await pass(10);
    reconciler.enqueue(100);
    const stopped = reconciler.stop();
    const again = reconciler.stop();
    assert.equal(await isSettled(stopped), false);
    await rest[ends]({ requeueAfter: 0 });
    assert.equal(await isSettled(stopped), true);
    assert.equal(await isSettled(again), true);
    reconciler.enqueue();
    reconciler.forget();
    assert.equal(clock.pending, 0);
    await pass(10_000);
    assert.deepEqual([begun, clock.pending, reported.length], [[0], 0, ends === "fail" ? 1 : 0]);
  }
});

test("stop leaves no timer of a wait, a pause or a held backoff", async () => {
  for (const state of ["wait", "pause", "held"] as const) {
    const { retry } = retries(true);
    const { reconciler, begun, clock, pass, end, fail } = reconcilerRig({
      retry,
      pauseMs: () => (state === "pause" ? 50 : 0),
    });
    reconciler.enqueue(10);
    if (state !== "wait") {
      await pass(10);
      reconciler.enqueue(20);
      reconciler.enqueue(5);
    }
    if (state === "pause") await end();
    if (state === "held") await fail();
    const runs = begun.length;
    assert.ok(clock.pending > 0);
    assert.equal(await isSettled(reconciler.stop()), true);
    assert.equal(clock.pending, 0);
    await pass(10_000);
    assert.equal(begun.length, runs);
  }
});

test("a stop within a run waits for that run", async () => {
  const stops: Promise<void>[] = [];
  const gate = Promise.withResolvers<undefined>();
  const clock = new FakeClock();
  const reconciler = new Reconciler({
    reconcile: () => {
      stops.push(reconciler.stop());
      return gate.promise;
    },
    startTimer: (callback, ms) => clock.after(ms, callback),
  });
  reconciler.enqueue();
  await clock.pass(0);
  const [stopped] = stops;
  assert.ok(stopped !== undefined);
  assert.equal(await isSettled(stopped), false);
  gate.resolve(undefined);
  assert.equal(await isSettled(stopped), true);
});

test("waits beyond the timer limit are waited for completely, and no adjustable clock is read", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  for (const clock of [Date, performance]) t.mock.method(clock, "now", () => assert.fail("a clock is read"));
  const DAY_MS = 86_400_000;
  let runs = 0;
  const reconciler = new Reconciler({
    reconcile: () => {
      runs += 1;
      return { requeueAfter: 40 * DAY_MS };
    },
    retry: retries().retry,
  });
  reconciler.enqueue();
  t.mock.timers.tick(1);
  assert.equal(runs, 1);
  for (let hour = 0; hour < 40 * 24 - 1; hour += 1) t.mock.timers.tick(3_600_000);
  t.mock.timers.tick(3_599_999);
  assert.equal(runs, 1);
  t.mock.timers.tick(1);
  assert.equal(runs, 2);
  reconciler.enqueue(1_000);
  t.mock.timers.tick(1_000);
  assert.equal(runs, 3);
  await reconciler.stop();
  t.mock.timers.tick(50 * DAY_MS);
  assert.equal(runs, 3);
});
