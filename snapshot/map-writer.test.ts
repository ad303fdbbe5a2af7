import assert from "node:assert/strict";
import { test } from "node:test";
import { IP, mapped, names, published, TestStore } from "../test/fakes/loop-rig.ts";
import { shardName } from "./map-format.ts";
import { MapWriter, type Snapshot } from "./map-writer.ts";
import { Shards } from "./shards.ts";

const TARGETS = [{ name: "ingress-nginx", clusterIPs: [IP] }];
const signal = new AbortController().signal;

function shardsOf(hostnames: readonly string[]): Shards {
  const shards = new Shards();
  for (const name of hostnames) shards.set(name, [IP]);
  return shards;
}

function edition(shards: Shards, more: Partial<Snapshot> = {}): Snapshot {
  return { shards: shards.render(), targets: TARGETS, hold: undefined, ...more };
}

test("an edition is stale until it is published, and again when anything of it differs", async () => {
  const store = new TestStore();
  const publisher = new MapWriter(store);
  const shards = shardsOf(names(3));
  assert.equal(publisher.isStale(edition(shards)), true);
  const { bytes, shards: written } = await publisher.publish(edition(shards), signal);
  assert.equal(written, 1);
  assert.equal(bytes, (store.shard(shardName(0)) ?? "").length + (store.index()?.text ?? "").length);
  assert.equal(publisher.isStale(edition(shards)), false);
  const hold = { id: "a", since: 0, until: 1, names: 1, of: 2 };
  assert.equal(publisher.isStale(edition(shards, { hold })), true, "a hold");
  assert.equal(publisher.isStale(edition(shards, { targets: [] })), true, "a target");
  shards.set("new.example.com", [IP]);
  assert.equal(publisher.isStale(edition(shards)), true, "a name");
});

test("publishing again writes nothing", async () => {
  const store = new TestStore();
  const publisher = new MapWriter(store);
  const shards = shardsOf(names(3));
  await publisher.publish(edition(shards), signal);
  store.writes.length = 0;
  const again = await publisher.publish(edition(shards), signal);
  assert.deepEqual([again.shards, again.bytes, store.writes], [0, 0, []]);
  assert.deepEqual(published(store), mapped(names(3)));
});

test("an echo, an equal text from elsewhere, is no change; an edit is one, each time", async () => {
  const store = new TestStore();
  const publisher = new MapWriter(store);
  const shards = shardsOf(names(3));
  await publisher.publish(edition(shards), signal);
  const text = store.shard(shardName(0)) ?? "";
  for (let round = 0; round < 2; round += 1) {
    await store.edit(shardName(0), Buffer.from(text).toString());
    assert.equal(publisher.isStale(edition(shards)), false);
    await store.edit(shardName(0), `${text} `);
    assert.equal(publisher.isStale(edition(shards)), true);
  }
});

test("a shrunken map's last shards are removed after the index that no longer names them", async () => {
  const store = new TestStore();
  const publisher = new MapWriter(store);
  const shards = shardsOf(names(4_000));
  await publisher.publish(edition(shards), signal);
  const before = store.shardNames().length;
  assert.ok(before > 2);
  for (const name of names(3_990, 10)) shards.set(name, []);
  const small = edition(shards);
  store.writes.length = 0;
  await publisher.publish(small, signal);
  const removals = Array.from({ length: before - 1 }, (_, index) => `remove ${shardName(index + 1)}`);
  assert.deepEqual(store.writes, [shardName(0), "index", ...removals]);
  assert.equal(publisher.isStale(small), false);
  assert.deepEqual(published(store), mapped(names(10)));
});

test("an aborted signal stops before the next write, also before a removal", async () => {
  const shards = shardsOf(names(3));
  for (let allowed = 0; allowed < 3; allowed += 1) {
    const store = new TestStore();
    await store.edit("switchback-hosts-9", "");
    const leadership = new AbortController();
    let writes = 0;
    store.onWrite = () => {
      writes += 1;
      if (writes === allowed) leadership.abort();
    };
    if (allowed === 0) leadership.abort();
    await assert.rejects(new MapWriter(store).publish(edition(shards), leadership.signal), { name: "AbortError" });
    assert.equal(store.writes.length, allowed);
  }
});

test("what is loaded is what the index says, and nothing else", async () => {
  const store = new TestStore();
  const publisher = new MapWriter(store);
  assert.equal(publisher.loadIndex(), undefined);
  assert.equal(publisher.loadLines().size, 0);
  await publisher.publish(edition(shardsOf([...names(4_000), "*.example.com"])), signal);
  assert.equal(publisher.loadLines().size, 4_001);
  assert.deepEqual(publisher.loadIndex()?.targets, TARGETS);
  const first = (store.shard(shardName(0)) ?? "").split("\n").length - 1;
  await store.edit(shardName(0), `${store.shard(shardName(0))}203.0.113.66 bank.example.com\n`);
  await store.edit("switchback-hosts-63", "203.0.113.66 bank.example.com\n");
  assert.equal(publisher.loadLines().size, 4_001 - first);
  await store.writeIndex("{", undefined);
  assert.equal(publisher.loadLines().size, 0);
});

test("shards are written four at a time, and the index after all of them", async () => {
  const store = new TestStore();
  const state = { open: 0, most: 0 };
  const writeShard = store.writeShard.bind(store);
  store.writeShard = async (name, text) => {
    state.open += 1;
    state.most = Math.max(state.most, state.open);
    await new Promise((resolve) => setImmediate(resolve));
    await writeShard(name, text);
    state.open -= 1;
  };
  const many = edition(shardsOf(names(20_000)));
  assert.ok(many.shards.length > 8);
  const { shards } = await new MapWriter(store).publish(many, signal);
  assert.deepEqual([shards, state.most, store.writes.at(-1)], [many.shards.length, 4, "index"]);
  assert.equal(store.writes.indexOf("index"), many.shards.length);
});
