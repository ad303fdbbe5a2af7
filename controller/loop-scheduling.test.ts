import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { leader, loopRig, mapped, names, published, stopClock, TestStore } from "#test/fakes/loop-rig.ts";

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
  rig.loop.start(rig.leadership.signal);
  rig.source.sync();
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

test("a change during a round is published by the next one, and its lag counts from the change", async (t) => {
  const { source, store, publications, pass, finish } = await midTurn(t);
  const changed = Date.now();
  source.set("shop/late", "late.example.com");
  await pass(100);
  finish();
  await pass(500);
  assert.deepEqual(published(store), mapped(["first.example.com", "late.example.com"]));
  const [first, second] = publications;
  assert.ok(first !== undefined && first.lagMs >= 150 && first.lagMs <= 160, `${first?.lagMs}`);
  assert.ok(Math.abs((second?.lagMs ?? 0) - (Date.now() - changed)) <= 200, `${second?.lagMs}`);
});

/** A leader whose writes fail; `tries` are the times of its attempts, in milliseconds. */
async function failing(t: TestContext) {
  const pass = stopClock(t);
  const rig = loopRig();
  rig.loop.start(rig.leadership.signal);
  rig.source.sync();
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

test("a leader that is deposed while it writes writes no more", async (t) => {
  const { loop, source, store, failures, pass, leadership } = await leader(t, names(3));
  store.onWrite = () => leadership.abort();
  source.set("shop/new", "new.example.com");
  await pass(5_000);
  source.set("shop/late", "late.example.com");
  await pass(5_000);
  assert.equal(store.writes.length, 1);
  assert.deepEqual(failures, [], "being deposed is no failure");
  assert.equal(loop.publishedNames, undefined);
});
