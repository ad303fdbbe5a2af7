import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { IP, loopRig, mapped, names, published, stopClock, TestStore } from "#test/fakes/loop-rig.ts";
import { isSettled } from "#test/fakes/stopped-time.ts";

// When the loop runs: what wakes it, what it waits for, and how it ends.

/** A store that writes the next map only when the test allows it. */
class SlowStore extends TestStore {
  gate: PromiseWithResolvers<void> | undefined;

  override async write(...map: Parameters<TestStore["write"]>): Promise<void> {
    await this.gate?.promise;
    await super.write(...map);
  }
}

/** A leader in the middle of a run, while it writes its map. `finish` ends that run. */
async function midTurn(t: TestContext) {
  const pass = stopClock(t);
  const store = new SlowStore();
  const rig = loopRig(store);
  rig.loop.start();
  rig.source.sync();
  rig.loop.lead(rig.leadership.signal);
  await pass(5_000);
  rig.publications.length = 0;
  const gate = Promise.withResolvers<void>();
  store.gate = gate;
  rig.source.set("shop/first", "first.example.com");
  await pass(50);
  const finish = () => {
    store.gate = undefined;
    gate.resolve();
  };
  return { ...rig, pass, finish };
}

test("a change during a run is published by the next one, and its lag counts from the change", async (t) => {
  const { source, store, publications, pass, finish } = await midTurn(t);
  source.set("shop/late", "late.example.com");
  await pass(100);
  finish();
  await pass(20);
  assert.deepEqual(published(store), mapped(["first.example.com", "late.example.com"]));
  const [first, second] = publications.map(({ lagMs }) => lagMs);
  assert.ok(first !== undefined && first >= 150 && first <= 160, `${first}`);
  assert.ok(second !== undefined && second >= 100 && second <= 120, `${second}`);
});

test("an edit during a run is reverted by the next one", async (t) => {
  const { store, pass, finish } = await midTurn(t);
  store.edit("203.0.113.66 bank.example.com\n");
  finish();
  await pass(20);
  assert.deepEqual(published(store), mapped(["first.example.com"]));
});

test("a target that moves during a run takes its names along in the next one", async (t) => {
  const { addresses, store, pass, finish } = await midTurn(t);
  addresses.move("198.51.100.1");
  finish();
  await pass(20);
  assert.deepEqual(published(store), mapped(["first.example.com"], "198.51.100.1"));
});

test("only one run happens at a time, and the next one only after a change", async (t) => {
  const { loop, store, source, pass, finish } = await midTurn(t);
  const before = store.writes.length;
  for (let change = 0; change < 5; change += 1) {
    source.set("shop/late", `late${change}.example.com`);
    await pass(1_000);
  }
  assert.equal(store.writes.length, before);
  finish();
  await pass(10_000);
  const writes = store.writes.length;
  await pass(60_000);
  assert.ok(store.writes.length - writes <= 1, "only for what left the map in between");
  assert.deepEqual(published(store), mapped(["first.example.com", "late4.example.com"]));
  await loop.stop();
});

test("stopping during a run starts no other, even after a change", async (t) => {
  const { loop, source, store, publications, pass, finish } = await midTurn(t);
  source.set("shop/late", "late.example.com");
  const stopped = loop.stop();
  assert.equal(await isSettled(stopped), false, "it waits for the turn");
  finish();
  await stopped;
  await pass(60_000);
  assert.equal(publications.length, 1);
  assert.deepEqual(published(store), mapped(["first.example.com"]));
  assert.equal(loop.publishedNames, undefined);
});

test("stopping cancels a scheduled run", async (t) => {
  const pass = stopClock(t);
  const { loop, source, addresses } = loopRig();
  loop.start();
  source.sync();
  source.set("shop/web", "a.example.com");
  await loop.stop();
  await pass(1_000);
  assert.deepEqual(addresses.used, []);
  loop.enqueue();
  await pass(1_000);
  assert.deepEqual(addresses.used, []);
});

test("stopping waits until the source, the addresses and the store have stopped", async (t) => {
  const { loop, source, addresses, store } = loopRig();
  const gates = [source, addresses, store].map((part) => {
    const gate = Promise.withResolvers<void>();
    t.mock.method(part as { stop(): Promise<void> }, "stop", () => gate.promise);
    return gate;
  });
  let stopped = false;
  const stopping = loop.stop().then(() => {
    stopped = true;
  });
  for (const gate of gates) {
    await new Promise(setImmediate);
    assert.equal(stopped, false);
    gate.resolve();
  }
  await stopping;
});

test("the first view of the store is enough to wake a leader", async (t) => {
  const pass = stopClock(t);
  const store = new TestStore();
  store.isSynced = false;
  const { loop, source, leadership } = loopRig(store);
  loop.start();
  source.set("shop/web", "a.example.com");
  source.sync();
  loop.lead(leadership.signal);
  await pass(1_000);
  assert.deepEqual(store.writes, []);
  store.isSynced = true;
  store.edit(undefined);
  await pass(10);
  assert.deepEqual(published(store), mapped(["a.example.com"]));
});

test("an edit of the map by somebody else counts as a change without lag", async (t) => {
  const { store, publications, pass, finish } = await midTurn(t);
  finish();
  await pass(5_000);
  publications.length = 0;
  store.edit("");
  await pass(20);
  assert.deepEqual(
    publications.map(({ lagMs }) => lagMs),
    [0],
  );
});

/** A leader whose writes fail; `tries` are the times of its attempts, in milliseconds. */
async function failing(t: TestContext) {
  const pass = stopClock(t);
  const rig = loopRig();
  rig.loop.start();
  rig.source.sync();
  rig.loop.lead(rig.leadership.signal);
  await pass(5_000);
  const began = Date.now();
  const tries: number[] = [];
  rig.store.onWrite = () => {
    tries.push(Date.now() - began);
    throw new Error("503");
  };
  rig.source.set("shop/web", "a.example.com");
  return { ...rig, pass, tries };
}

function gapsOf(tries: readonly number[]): number[] {
  return tries.slice(1).map((time, index) => Math.round((time - (tries[index] ?? 0)) / 100) * 100);
}

test("the retry delay doubles from half a second to fifteen seconds, and resets after a success", async (t) => {
  const { source, store, tries, failures, logged, pass } = await failing(t);
  await pass(62_000);
  assert.deepEqual(gapsOf(tries), [500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000, 15_000]);
  assert.equal(failures.length, tries.length);
  // One line for all attempts, because the failure stays the same.
  assert.equal(logged.filter((code) => code === "publish-failed").length, 1);
  const fail = store.onWrite;
  store.onWrite = () => {};
  await pass(15_000);
  assert.deepEqual(published(store), mapped(["a.example.com"]));
  store.onWrite = fail;
  tries.length = 0;
  source.set("shop/web", "b.example.com");
  await pass(2_000);
  assert.deepEqual(gapsOf(tries), [500, 1_000]);
});

test("setting the clock back does not extend a retry delay", async (t) => {
  const { tries, pass } = await failing(t);
  await pass(100);
  const time = Date.now;
  t.mock.method(Date, "now", () => time() - 3_600_000);
  assert.equal(tries.length, 1);
  await pass(500);
  assert.equal(tries.length, 2);
  await pass(1_000);
  assert.equal(tries.length, 3);
});

test("a deposed leader whose write failed observes at once as a follower", async (t) => {
  const { source, addresses, leadership, pass } = await failing(t);
  await pass(20_000);
  leadership.abort();
  addresses.used.length = 0;
  source.set("shop/web", "a.example.com");
  await pass(10);
  source.set("shop/web");
  await pass(10);
  assert.equal(addresses.used.at(-1), "");
});

test("a new term does not wait for the retry of the last one", async (t) => {
  const { loop, store, leadership, tries, pass } = await failing(t);
  await pass(20_000);
  leadership.abort();
  tries.length = 0;
  loop.lead(new AbortController().signal);
  await pass(2_000);
  assert.ok((tries[0] ?? 0) <= 20_020, "at once");
  assert.deepEqual(gapsOf(tries), [500, 1_000]);
  store.onWrite = () => {};
  await pass(4_000);
  assert.deepEqual(published(store), mapped(["a.example.com"]));
});

test("it never sleeps longer than an hour, because timers overflow", async (t) => {
  const pass = stopClock(t);
  const store = new TestStore();
  const { loop, source, leadership } = loopRig(store, { removal: { vanishMs: 40 * 86_400_000 } });
  loop.start();
  source.set("shop/web", "a.example.com", "b.example.com");
  source.sync();
  loop.lead(leadership.signal);
  await pass(2_000);
  const timers = t.mock.method(globalThis, "setTimeout");
  source.set("shop/web", "a.example.com");
  await pass(100);
  const delays = timers.mock.calls.map(({ arguments: [, ms] }) => ms);
  assert.deepEqual(delays, [0, 3_600_000]);
  for (let day = 0; day < 40; day += 1) {
    assert.deepEqual(published(store), mapped(["a.example.com", "b.example.com"]));
    await pass(86_400_000, 3_600_000);
  }
  await pass(3_600_000, 3_600_000);
  assert.deepEqual(published(store), mapped(["a.example.com"]));
});

test("the loop reports the longest inactive time of any watch", () => {
  const { loop, source, addresses, store } = loopRig();
  const silence = (sources: readonly (number | undefined)[], own?: number, fronts?: number) => {
    const states = sources.map((inactiveMs) => ({ name: "s", synced: true, problems: [], inactiveMs }));
    Object.assign(source, { state: () => states });
    Object.defineProperty(store, "inactiveMs", { value: own, configurable: true });
    Object.defineProperty(addresses, "inactiveMs", { value: fronts, configurable: true });
    return loop.inactiveMs;
  };
  assert.equal(silence([]), 0);
  assert.equal(silence([undefined, 7, 3], 5, 6), 7);
  assert.equal(silence([undefined, 4, 3], 5, 6), 6);
  assert.equal(silence([undefined, 4, 3], 8, 6), 8);
});

test("each hold is reported", async (t) => {
  const pass = stopClock(t);
  const { loop, source, store, holds, logged, leadership } = loopRig();
  loop.start();
  source.set("shop/web", ...names(12));
  source.sync();
  loop.lead(leadership.signal);
  await pass(1_000);
  for (const _round of [1, 2]) {
    source.set("shop/web");
    await pass(1_000);
    source.set("shop/web", ...names(12));
    await pass(2_000);
    assert.equal(store.hold, undefined);
  }
  assert.equal(holds.length, 2);
  assert.equal(logged.filter((code) => code === "removal-held").length, 2);
  assert.deepEqual(published(store), mapped(names(12), IP));
});
