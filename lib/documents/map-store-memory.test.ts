import assert from "node:assert/strict";
import { test } from "node:test";
import { TERM } from "#test/fakes/loop-rig.ts";
import { MemoryMapStore, memoryMapReader } from "./map-store-memory.ts";
import { MapWriter } from "./map-writer.ts";
import { isMap } from "./published-map.ts";
import { Shards } from "./shards.ts";

test("a write is visible at once, and reported to every follower", async () => {
  const store = new MemoryMapStore();
  let told = 0;
  store.start(() => {
    told += 1;
  });
  assert.equal(store.synced, true);
  assert.equal(store.state(), undefined);
  await store.writeShard("s-0", "text");
  await store.writeState("{}", "held");
  assert.equal(store.shard("s-0"), "text");
  assert.deepEqual(store.state(), { text: "{}", hold: "held", confirmed: undefined });
  await store.removeShard("s-0");
  assert.deepEqual([store.shard("s-0"), store.shardNames()], [undefined, []]);
  assert.equal(told, 3);
});

test("a confirmation outlives the next state, like somebody else's annotation", async () => {
  const store = new MemoryMapStore();
  store.confirm("early");
  assert.equal(store.state(), undefined, "there is nothing to confirm yet");
  await store.writeState("one", "held");
  store.confirm("id");
  await store.writeState("two", undefined);
  assert.deepEqual(store.state(), { text: "two", hold: undefined, confirmed: "id" });
});

test("after stop, it reports nothing", async () => {
  const store = new MemoryMapStore();
  let told = 0;
  store.start(() => {
    told += 1;
  });
  await store.stop();
  await store.writeShard("s-0", "text");
  assert.equal(told, 0);
});

test("its reader offers the maps that a writer publishes, and a reason while a shard is missing", async () => {
  const store = new MemoryMapStore();
  const offers: string[] = [];
  memoryMapReader(store).start((offer) => offers.push(isMap(offer) ? offer.names.join() : offer.code));
  const shards = new Shards();
  shards.set("a.example.com", ["198.51.100.9"]);
  const snapshot = { shards: shards.render(), targets: [], hold: undefined };
  await new MapWriter(store).publish(snapshot, TERM);
  await store.removeShard("switchback-hosts-0");
  // The events: a shard, the index, the state (which no reader needs), and the removal.
  assert.deepEqual(offers, ["index-missing", "a.example.com", "a.example.com", "shard-missing"]);
});
