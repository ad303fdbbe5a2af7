import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { leader, loopRig, mapped, names, published, stopClock, TestStore } from "#test/fakes/loop-rig.ts";

// The end of a leader's term, and of the process.

test("a leader that is deposed while it writes writes no more; when it leads again, it continues", async (t) => {
  const { loop, source, store, failures, pass, leadership } = await leader(t, names(3));
  store.onWrite = () => leadership.abort();
  source.set("shop/new", "new.example.com");
  await pass(5_000);
  assert.equal(store.writes.length, 1);
  assert.deepEqual(failures, [], "being deposed is no failure");
  assert.equal(loop.publishedNames, undefined);
  store.onWrite = () => {};
  const again = new AbortController();
  loop.lead(again.signal);
  await pass(1_000);
  assert.deepEqual(published(store), mapped([...names(3), "new.example.com"]));
  loop.lead(new AbortController().signal);
  again.abort();
  await pass(1_000);
  assert.notEqual(loop.publishedNames, undefined, "the end of an earlier term ends no later one");
});

test("a term that ends before it begins has no effect", async (t) => {
  const pass = stopClock(t);
  const { loop, source, store } = loopRig();
  loop.start();
  source.set("shop/web", "a.example.com");
  source.sync();
  loop.lead(AbortSignal.abort());
  await pass(1_000);
  assert.deepEqual(store.writes, []);
  assert.equal(loop.publishedNames, undefined);
});

test("a stopped loop does nothing more", async (t) => {
  const { loop, source, store, pass } = await leader(t, names(3));
  await loop.stop();
  source.set("shop/new", "new.example.com");
  await pass(5_000);
  assert.deepEqual(store.writes, []);
});

test("stopping in the middle of a run sets no timer for later work", async (t) => {
  const store = new TestStore();
  const earlier = loopRig(store);
  earlier.loop.start();
  earlier.source.set("shop/web", "leaving.example.com");
  earlier.source.sync();
  earlier.loop.lead(earlier.leadership.signal);
  await sleep(20);
  earlier.leadership.abort();
  await earlier.loop.stop();
  const { loop, source, leadership } = loopRig(store);
  loop.start();
  source.set("shop/web", "new.example.com");
  source.sync();
  const timers = t.mock.method(globalThis, "setTimeout");
  let before = Number.NaN;
  store.onWrite = () => {
    before = timers.mock.callCount();
    void loop.stop();
  };
  loop.lead(leadership.signal);
  await sleep(30);
  assert.equal(timers.mock.callCount(), before);
});
