import assert from "node:assert/strict";
import { test } from "node:test";
import { IP, mapped, names, published, TERM, TestStore } from "#test/fakes/loop-rig.ts";
import { SHARD_NAMES } from "./map-format.ts";
import { MapWriter, type Snapshot } from "./map-writer.ts";
import { renderHold } from "./removal-hold.ts";
import { Shards } from "./shards.ts";

const TARGETS = [{ name: "ingress-nginx", clusterIPs: [IP] }];

function shardsOf(hostnames: readonly string[]): Shards {
  const shards = new Shards();
  for (const name of hostnames) shards.set(name, [IP]);
  return shards;
}

function snapshotOf(shards: Shards, more: Partial<Snapshot> = {}): Snapshot {
  return { shards: shards.render(), targets: TARGETS, hold: undefined, ...more };
}

/** Returns the only shard of a store with a small map. */
const only = (store: TestStore) => store.named()[0] ?? "";

test("a snapshot is stale until it is published, and again when any part of it differs", async () => {
  const store = new TestStore();
  const writer = new MapWriter(store);
  const shards = shardsOf(names(3));
  assert.equal(writer.isStale(snapshotOf(shards)), true);
  const { bytes, shards: written } = await writer.publish(snapshotOf(shards), TERM);
  assert.equal(written, 1);
  assert.equal(bytes, (store.shard(only(store)) ?? "").length + (store.index() ?? "").length);
  assert.equal(writer.isStale(snapshotOf(shards)), false);
  const hold = { id: "a", since: 0, until: 1, names: 1, of: 2 };
  assert.equal(writer.isStale(snapshotOf(shards, { hold })), true, "a hold");
  assert.equal(writer.isStale(snapshotOf(shards, { targets: [] })), true, "a target");
  shards.set("new.example.com", [IP]);
  assert.equal(writer.isStale(snapshotOf(shards)), true, "a name");
});

test("publishing again writes nothing", async () => {
  const store = new TestStore();
  const writer = new MapWriter(store);
  const shards = shardsOf(names(3));
  await writer.publish(snapshotOf(shards), TERM);
  store.writes.length = 0;
  const again = await writer.publish(snapshotOf(shards), TERM);
  assert.deepEqual([again.shards, again.bytes, store.writes], [0, 0, []]);
  assert.deepEqual(published(store), mapped(names(3)));
});

test("an equal text from elsewhere is not a change, but an edit is one each time", async () => {
  const store = new TestStore();
  const writer = new MapWriter(store);
  const shards = shardsOf(names(3));
  await writer.publish(snapshotOf(shards), TERM);
  const text = store.shard(only(store)) ?? "";
  for (let round = 0; round < 2; round += 1) {
    await store.edit(only(store), Buffer.from(text).toString());
    assert.equal(writer.isStale(snapshotOf(shards)), false);
    await store.edit(only(store), `${text} `);
    assert.equal(writer.isStale(snapshotOf(shards)), true);
  }
});

test("a shard that the index names is never written; an edited shard is replaced and removed", async () => {
  const store = new TestStore();
  const writer = new MapWriter(store);
  const shards = shardsOf(names(3));
  await writer.publish(snapshotOf(shards), TERM);
  for (const expected of ["switchback-hosts-1", "switchback-hosts-0", "switchback-hosts-1"]) {
    shards.set(`${expected}${Math.random()}.example.com`, [IP]);
    store.writes.length = 0;
    await writer.publish(snapshotOf(shards), TERM);
    assert.deepEqual(store.writes, [expected, "index"]);
  }
  await store.edit("switchback-hosts-1", "edited");
  store.writes.length = 0;
  await writer.publish(snapshotOf(shards), TERM);
  assert.deepEqual(store.writes, ["switchback-hosts-0", "index", "remove switchback-hosts-1"]);
  assert.equal(writer.isStale(snapshotOf(shards)), false);
});

test("shards that the index no longer names stay as spares, at most eight", async () => {
  const store = new TestStore();
  const writer = new MapWriter(store);
  const shards = shardsOf(names(4_000));
  await writer.publish(snapshotOf(shards), TERM);
  const before = store.named();
  assert.ok(before.length > 12);
  for (const name of names(3_990, 10)) shards.set(name, []);
  const small = snapshotOf(shards);
  store.writes.length = 0;
  await writer.publish(small, TERM);
  const name = `switchback-hosts-${before.length}`;
  assert.deepEqual(store.writes.slice(0, 2), [name, "index"]);
  assert.deepEqual(
    store.writes.slice(2),
    before.slice(8).map((each) => `remove ${each}`),
  );
  assert.equal(writer.isStale(small), false);
  assert.deepEqual(published(store), mapped(names(10)));
});

test("after all shards changed, single changes write to spares, and nothing is created or removed", async () => {
  const store = new TestStore();
  const writer = new MapWriter(store);
  const shards = shardsOf(names(4_000));
  await writer.publish(snapshotOf(shards), TERM);
  for (const name of names(4_000)) shards.set(name, ["203.0.113.9"]);
  await writer.publish(snapshotOf(shards), TERM);
  const there = store.shardNames().toSorted();
  store.writes.length = 0;
  for (const name of names(20)) {
    shards.set(name, [IP]);
    await writer.publish(snapshotOf(shards), TERM);
  }
  assert.equal(store.writes.length, 40);
  assert.deepEqual(store.shardNames().toSorted(), there);
});

test("during a publication, the map in the store is always the previous one or the new one", async () => {
  const store = new TestStore();
  const writer = new MapWriter(store);
  const shards = shardsOf(names(400));
  await writer.publish(snapshotOf(shards), TERM);
  const [old, more] = [names(400), names(900)];
  const seen = new Set<unknown>();
  store.start(() => {
    const map = store.read();
    seen.add("revision" in map ? map.size : map.code);
  });
  for (const name of more) shards.set(name, [IP]);
  await writer.publish(snapshotOf(shards), TERM);
  assert.deepEqual([...seen], [old.length, more.length]);
});

test("an aborted signal stops before the next write, and also before a removal", async () => {
  const shards = shardsOf(names(3));
  for (let allowed = 0; allowed < 4; allowed += 1) {
    const store = new TestStore();
    await store.edit("switchback-hosts-9", "");
    const leadership = new AbortController();
    store.onWrite = () => {
      if (store.writes.length + 1 === allowed) leadership.abort();
    };
    if (allowed === 0) leadership.abort();
    await assert.rejects(new MapWriter(store).publish(snapshotOf(shards), leadership.signal), /aborted/);
    assert.equal(store.writes.length, allowed);
  }
});

test("only names from shards that match the index are loaded", async () => {
  const store = new TestStore();
  const writer = new MapWriter(store);
  assert.equal(writer.loadIndex(), undefined);
  assert.equal(writer.loadLines().size, 0);
  await writer.publish(snapshotOf(shardsOf([...names(4_000), "*.example.com"])), TERM);
  assert.equal(writer.loadLines().size, 4_001);
  assert.deepEqual(writer.loadTargets(), TARGETS);
  const first = (store.shard(only(store)) ?? "").split("\n").length - 1;
  await store.edit(only(store), `${store.shard(only(store))}203.0.113.66 bank.example.com\n`);
  await store.edit("switchback-hosts-63", "203.0.113.66 bank.example.com\n");
  assert.equal(writer.loadLines().size, 4_001 - first);
  await store.writeIndex("{");
  await store.writeState("{", undefined);
  assert.deepEqual([writer.loadLines().size, writer.loadTargets()], [0, []]);
});

test("a publication waits for each write, and fails if the index, the state or a removal fails", async () => {
  for (const failing of ["index", "state", "remove switchback-hosts-9"]) {
    const store = new TestStore();
    await store.edit("switchback-hosts-9", "");
    store.onWrite = (name) => {
      if (name === failing) throw new Error(`refused: ${name}`);
    };
    await assert.rejects(new MapWriter(store).publish(snapshotOf(shardsOf(names(3))), TERM), {
      message: `refused: ${failing}`,
    });
  }
});

test("a new leader removes only shards that the index does not name", async () => {
  const store = new TestStore();
  const shards = shardsOf(names(3));
  await new MapWriter(store).publish(snapshotOf(shards), TERM);
  shards.set("new.example.com", [IP]);
  store.onWrite = (name) => {
    if (name === "index") throw new Error("refused");
  };
  await assert.rejects(new MapWriter(store).publish(snapshotOf(shards), TERM));
  store.onWrite = () => {};
  store.writes.length = 0;
  const next = new MapWriter(store);
  await next.begin(TERM);
  assert.deepEqual(store.writes, ["remove switchback-hosts-1"]);
  assert.equal(next.loadLines().size, 3);
  await next.publish(snapshotOf(shards), TERM);
  assert.deepEqual(store.writes.slice(1), ["switchback-hosts-1", "index", "remove switchback-hosts-0"]);
});

for (const [what, write] of [
  ["map", (store: TestStore) => store.writeIndex('{"version":2}')],
  ["state", (store: TestStore) => store.writeState('{"version":2}', undefined)],
] as const) {
  test(`a new leader does not change a ${what} of an unknown version`, async () => {
    const store = new TestStore();
    await new MapWriter(store).publish(snapshotOf(shardsOf(names(3))), TERM);
    await store.edit("switchback-hosts-9", "");
    await write(store);
    store.writes.length = 0;
    const next = new MapWriter(store);
    const message = /left as it is: (index|state)\.json has version 2/;
    await assert.rejects(next.begin(TERM), { code: "data-corrupt", message });
    assert.deepEqual(store.writes, []);
  });
}

test("a change of the hold alone is written with the state, and so is its end", async () => {
  const store = new TestStore();
  const writer = new MapWriter(store);
  const shards = shardsOf(names(3));
  const hold = { id: "a", since: 0, until: 1, names: 1, of: 2 };
  await writer.publish(snapshotOf(shards), TERM);
  const state = store.state()?.text;
  store.writes.length = 0;
  const held = await writer.publish(snapshotOf(shards, { hold }), TERM);
  assert.deepEqual([store.writes, held.shards, held.bytes], [["state"], 0, 0]);
  assert.deepEqual([store.state()?.text, store.state()?.hold], [state, renderHold(hold)]);
  await writer.publish(snapshotOf(shards), TERM);
  assert.deepEqual([store.writes, store.state()?.hold], [["state", "state"], undefined]);
});

test("shards are written four at a time, and the index and the state after all of them", async () => {
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
  const many = snapshotOf(shardsOf(names(20_000)));
  assert.ok(many.shards.length > 8);
  const { shards } = await new MapWriter(store).publish(many, TERM);
  assert.deepEqual([shards, state.most, store.writes.at(-1)], [many.shards.length, 4, "state"]);
  assert.equal(store.writes.indexOf("index"), many.shards.length);
});

test("the whole map can be written again, even after a publication that ended before the index", async () => {
  const long = names(20_000).map((name) => `${"x".repeat(60)}.${"y".repeat(60)}.${name}`);
  const store = new TestStore();
  const writer = new MapWriter(store);
  const shards = shardsOf(long);
  await writer.publish(snapshotOf(shards), TERM);
  assert.equal(store.named().length, SHARD_NAMES.length / 2);
  for (const name of long) shards.set(name, ["198.51.100.1"]);
  store.onWrite = (name) => {
    if (name === "index") throw new Error("refused");
  };
  await assert.rejects(writer.publish(snapshotOf(shards), TERM), /refused/);
  store.onWrite = () => {};
  for (const name of long) shards.set(name, ["198.51.100.2"]);
  await writer.publish(snapshotOf(shards), TERM);
  assert.deepEqual(published(store), mapped(long, "198.51.100.2"));
});
