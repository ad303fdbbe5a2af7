import assert from "node:assert/strict";
import { test } from "node:test";
import { shortHash } from "#hostmap/hash.ts";
import { atOnce, IP, mapped, names, published, TERM, TestStore } from "#test/fakes/loop-rig.ts";
import { refusal } from "#test/fakes/memory-kube.ts";
import { renderIndex, SHARD_NAMES } from "./map-format.ts";
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

/** The only shard of a store with a small map. */
const only = (store: TestStore) => store.named()[0] ?? "";

test("a snapshot is stale until it is published, and again when anything of it differs", async () => {
  const store = new TestStore();
  const writer = new MapWriter(store, atOnce());
  const shards = shardsOf(names(3));
  assert.equal(writer.isStale(snapshotOf(shards)), true);
  const { bytes, shards: written } = await writer.publish(snapshotOf(shards), TERM);
  assert.equal(written, 1);
  assert.equal(bytes, (store.shard(only(store)) ?? "").length + (store.compactIndex() ?? "").length);
  assert.equal(writer.isStale(snapshotOf(shards)), false);
  const hold = { id: "a", since: 0, until: 1, names: 1, of: 2 };
  assert.equal(writer.isStale(snapshotOf(shards, { hold })), true, "a hold");
  assert.equal(writer.isStale(snapshotOf(shards, { targets: [] })), true, "a target");
  shards.set("new.example.com", [IP]);
  assert.equal(writer.isStale(snapshotOf(shards)), true, "a name");
});

test("publishing again writes nothing", async () => {
  const store = new TestStore();
  const writer = new MapWriter(store, atOnce());
  const shards = shardsOf(names(3));
  await writer.publish(snapshotOf(shards), TERM);
  store.writes.length = 0;
  const again = await writer.publish(snapshotOf(shards), TERM);
  assert.deepEqual([again.shards, again.bytes, store.writes], [0, 0, []]);
  assert.deepEqual(published(store), mapped(names(3)));
});

test("an echo, an equal text from elsewhere, is no change; an edit is one, each time", async () => {
  const store = new TestStore();
  const writer = new MapWriter(store, atOnce());
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

test("no write goes to a shard that an index names, and an edited one is replaced and removed", async () => {
  const store = new TestStore();
  const writer = new MapWriter(store, atOnce());
  const shards = shardsOf(names(3));
  await writer.publish(snapshotOf(shards), TERM);
  for (const expected of ["switchback-hosts-1", "switchback-hosts-0", "switchback-hosts-1"]) {
    shards.set(`${expected}${Math.random()}.example.com`, [IP]);
    store.writes.length = 0;
    await writer.publish(snapshotOf(shards), TERM);
    assert.deepEqual(store.writes, [expected, "compact index", "index"]);
  }
  await store.edit("switchback-hosts-1", "edited");
  store.writes.length = 0;
  await writer.publish(snapshotOf(shards), TERM);
  assert.deepEqual(store.writes, ["switchback-hosts-0", "compact index", "index", "remove switchback-hosts-1"]);
  assert.equal(writer.isStale(snapshotOf(shards)), false);
});

test("shards that no index names any more stay as spares, eight at most", async () => {
  const store = new TestStore();
  const writer = new MapWriter(store, atOnce());
  const shards = shardsOf(names(4_000));
  await writer.publish(snapshotOf(shards), TERM);
  const before = store.named();
  assert.ok(before.length > 12);
  for (const name of names(3_990, 10)) shards.set(name, []);
  const small = snapshotOf(shards);
  store.writes.length = 0;
  await writer.publish(small, TERM);
  const name = `switchback-hosts-${before.length}`;
  assert.deepEqual(store.writes.slice(0, 3), [name, "compact index", "index"]);
  assert.deepEqual(
    store.writes.slice(3),
    before.slice(8).map((each) => `remove ${each}`),
  );
  assert.equal(writer.isStale(small), false);
  assert.deepEqual(published(store), mapped(names(10)));
});

test("while it publishes, the map in the store is always the one before or the new one", async () => {
  const store = new TestStore();
  const writer = new MapWriter(store, atOnce());
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

test("an aborted signal, or a term that has run out, stops before the next write, also before a removal", async () => {
  const shards = shardsOf(names(3));
  for (const end of ["aborted", "run out"]) {
    for (let allowed = 0; allowed < 4; allowed += 1) {
      const store = new TestStore();
      await store.edit("switchback-hosts-9", "");
      const leadership = new AbortController();
      const term = { signal: leadership.signal, leading: () => end === "aborted" || store.writes.length < allowed };
      store.onWrite = () => {
        if (end === "aborted" && store.writes.length + 1 === allowed) leadership.abort();
      };
      if (end === "aborted" && allowed === 0) leadership.abort();
      const message = end === "aborted" ? /aborted/ : /no longer the leader/;
      await assert.rejects(new MapWriter(store, atOnce()).publish(snapshotOf(shards), term), message);
      assert.equal(store.writes.length, allowed);
    }
  }
});

test("what is loaded is what the index says, and nothing else", async () => {
  const store = new TestStore();
  const writer = new MapWriter(store, atOnce());
  assert.equal(writer.loadIndex(), undefined);
  assert.equal(writer.loadLines().size, 0);
  await writer.publish(snapshotOf(shardsOf([...names(4_000), "*.example.com"])), TERM);
  assert.equal(writer.loadLines().size, 4_001);
  assert.deepEqual(writer.loadIndex()?.targets, TARGETS);
  const first = (store.shard(only(store)) ?? "").split("\n").length - 1;
  await store.edit(only(store), `${store.shard(only(store))}203.0.113.66 bank.example.com\n`);
  await store.edit("switchback-hosts-63", "203.0.113.66 bank.example.com\n");
  assert.equal(writer.loadLines().size, 4_001 - first);
  await store.writeCompactIndex("{");
  assert.equal(writer.loadLines().size, 4_001 - first, "by the other index");
  await store.writeIndex("{", undefined, true);
  assert.equal(writer.loadLines().size, 0);
});

test("what is published waits for each write: an index or a removal that fails fails the publication", async () => {
  for (const failing of ["compact index", "index", "remove switchback-hosts-9"]) {
    const store = new TestStore();
    await store.edit("switchback-hosts-9", "");
    store.onWrite = (name) => {
      if (name === failing) throw new Error(`refused: ${name}`);
    };
    await assert.rejects(new MapWriter(store, atOnce()).publish(snapshotOf(shardsOf(names(3))), TERM), {
      message: `refused: ${failing}`,
    });
  }
});

test("a publication that ended between the indexes is completed before a name of either is taken", async () => {
  const store = new TestStore();
  const writer = new MapWriter(store, atOnce());
  const shards = shardsOf(names(3));
  await writer.publish(snapshotOf(shards), TERM);
  shards.set("new.example.com", [IP]);
  store.onWrite = (name) => {
    if (name === "index") throw new Error("refused");
  };
  await assert.rejects(writer.publish(snapshotOf(shards), TERM));
  store.onWrite = () => {};
  assert.deepEqual(writer.loadIndex()?.shards, [
    { name: "switchback-hosts-1", revision: shortHash(store.shard("switchback-hosts-1") ?? "").slice(0, 9) },
  ]);
  store.writes.length = 0;
  await new MapWriter(store, atOnce()).begin(TERM);
  assert.deepEqual(store.writes, ["compact index", "index", "remove switchback-hosts-0"]);
  assert.match(store.index()?.text ?? "", new RegExp(shortHash(store.shard("switchback-hosts-1") ?? "")));
  assert.equal(writer.isStale(snapshotOf(shards)), false);
});

test("a map of an unknown version is left as it is by a new leader; one that is known beside it is used", async () => {
  const store = new TestStore();
  const writer = new MapWriter(store, atOnce());
  await writer.publish(snapshotOf(shardsOf(names(3))), TERM);
  await store.writeCompactIndex('{"version":2}');
  assert.equal(new MapWriter(store, atOnce()).loadLines().size, 3);
  await store.writeIndex('{"version":2}', undefined, true);
  store.writes.length = 0;
  const next = new MapWriter(store, atOnce());
  assert.deepEqual([next.loadIndex(), next.loadLines().size], [undefined, 0]);
  await assert.rejects(next.begin(TERM), { code: "data-corrupt", message: /left as it is: index\.json has version 2/ });
  assert.deepEqual(store.writes, []);
});

test("what the release before published is taken over: the compact index first, then its own is marked", async () => {
  const store = new TestStore();
  const text = `${IP} n0.example.com\n`;
  await store.edit("switchback-hosts-0", text);
  await store.edit("switchback-hosts-5", "left over");
  const shards = [{ name: "switchback-hosts-0", revision: shortHash(text) }];
  const index = { revision: "r", targets: TARGETS, shards };
  store.publishAsBefore(`${JSON.stringify(index, null, 1)}\n`, "held");
  const writer = new MapWriter(store, atOnce());
  assert.deepEqual(writer.loadIndex(), index);
  await writer.begin(TERM);
  assert.deepEqual(store.writes, ["compact index", "index", "remove switchback-hosts-5"]);
  const { superseded, hold, text: written } = store.index() ?? {};
  assert.deepEqual([superseded, hold, written], [true, "held", renderIndex(index)]);
  assert.deepEqual(published(store), mapped(names(1)));
  store.publishAsBefore(`${JSON.stringify({ ...index, shards: [] })}\n`, undefined);
  assert.deepEqual(writer.loadIndex()?.shards, [], "its index is in force once it has written it again");
});

test("without the right to the compact index, that of format 0 is in force, until it may be written again", async () => {
  const store = new TestStore();
  const writer = new MapWriter(store, atOnce());
  const shards = shardsOf(names(3));
  await writer.publish(snapshotOf(shards), TERM);
  store.onWrite = (name) => {
    if (name === "compact index") throw refusal(name, 403);
  };
  shards.set("new.example.com", [IP]);
  await writer.publish(snapshotOf(shards), TERM);
  assert.equal(store.index()?.superseded, false);
  const index = { revision: "", ...writer.loadIndex() };
  assert.deepEqual([index.shards?.[0]?.name, writer.loadLines().size], ["switchback-hosts-1", 4]);
  assert.equal(writer.isStale(snapshotOf(shards)), true);
  await writer.publish(snapshotOf(shards), TERM);
  assert.ok(store.shard("switchback-hosts-0") !== undefined, "the compact index still names it");
  store.onWrite = () => {};
  await writer.publish(snapshotOf(shards), TERM);
  assert.deepEqual([store.index()?.superseded, store.named()], [true, ["switchback-hosts-1"]]);
  assert.equal(writer.isStale(snapshotOf(shards)), false);
});

test("a hold alone is written with the index, and its end again", async () => {
  const store = new TestStore();
  const writer = new MapWriter(store, atOnce());
  const shards = shardsOf(names(3));
  const hold = { id: "a", since: 0, until: 1, names: 1, of: 2 };
  await writer.publish(snapshotOf(shards), TERM);
  const index = store.index()?.text;
  store.writes.length = 0;
  const held = await writer.publish(snapshotOf(shards, { hold }), TERM);
  assert.deepEqual([store.writes, held.shards, held.bytes], [["index"], 0, 0]);
  assert.deepEqual([store.index()?.text, store.index()?.hold], [index, renderHold(hold)]);
  await writer.publish(snapshotOf(shards), TERM);
  assert.deepEqual([store.writes, store.index()?.hold], [["index", "index"], undefined]);
});

test("shards are written four at a time, and the indexes after all of them", async () => {
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
  const { shards } = await new MapWriter(store, atOnce()).publish(many, TERM);
  assert.deepEqual([shards, state.most, store.writes.at(-1)], [many.shards.length, 4, "index"]);
  assert.equal(store.writes.indexOf("compact index"), many.shards.length);
});

test("the whole map can be written anew, also after a publication that ended between the indexes", async () => {
  const long = names(20_000).map((name) => `${"x".repeat(60)}.${"y".repeat(60)}.${name}`);
  const store = new TestStore();
  const writer = new MapWriter(store, atOnce());
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

/** A writer with the test's clock, and its store with a published map of three names. */
async function lateRig() {
  const store = new TestStore();
  const clock = { now: 0 };
  const writer = new MapWriter(store, () => clock.now);
  const shards = shardsOf(names(3));
  const add = async (name: string, more: Partial<Snapshot> = {}) => {
    shards.set(name, [IP]);
    const snapshot = snapshotOf(shards, more);
    store.writes.length = 0;
    await writer.publish(snapshot, TERM);
    return snapshot;
  };
  await add("first.example.com");
  return { store, clock, writer, shards, add };
}

test("the index of format 0 follows at most five seconds later, and is no difference until then", async () => {
  const { store, clock, writer, add } = await lateRig();
  assert.equal(writer.indexDueAt, undefined);
  const index = store.index()?.text;
  for (const at of [1_000, 2_000, 4_999]) {
    clock.now = at;
    const snapshot = await add(`at${at}.example.com`);
    assert.deepEqual([store.writes.length, store.writes.at(-1)], [2, "compact index"]);
    assert.deepEqual([writer.isStale(snapshot), writer.indexDueAt], [false, 5_000]);
    store.writes.length = 0;
    await writer.writeDueIndex(TERM);
    assert.deepEqual([store.writes, store.index()?.text], [[], index]);
  }
  clock.now = 5_000;
  await writer.writeDueIndex(TERM);
  assert.deepEqual([store.writes, writer.indexDueAt], [["index"], undefined]);
  assert.equal(writer.loadLines().size, 7);
  assert.deepEqual(
    (JSON.parse(store.index()?.text ?? "") as { shards: { name: string }[] }).shards.map(({ name }) => name),
    store.named(),
  );
  clock.now = 9_999;
  await add("next.example.com");
  assert.deepEqual(store.writes.slice(1), ["compact index"]);
  clock.now = 10_000;
  await add("due.example.com");
  assert.deepEqual(store.writes.slice(1), ["compact index", "index"], "one that is due follows at once");
});

test("targets, a hold, an edit and the end of a term are not late", async () => {
  const hold = { id: "a", since: 0, until: 1, names: 1, of: 2 };
  const { store, writer, add } = await lateRig();
  for (const more of [{ hold }, { hold, targets: [] }, {}]) {
    const label = JSON.stringify(more).replaceAll(/\W/g, "");
    await add(`changed-${label}.example.com`, more);
    assert.deepEqual(store.writes.slice(1), ["compact index", "index"]);
    await add(`same-${label}.example.com`, more);
    assert.deepEqual(store.writes.slice(1), ["compact index"]);
  }
  const snapshot = await add("late.example.com");
  const late = (JSON.parse(store.index()?.text ?? "") as { shards: { name: string }[] }).shards[0]?.name ?? "";
  assert.notEqual(late, only(store));
  await store.edit(late, "edited");
  assert.equal(writer.isStale(snapshot), true);
  store.writes.length = 0;
  await writer.publish(snapshot, TERM);
  assert.deepEqual(store.writes, ["index", `remove ${late}`]);
  await add("later.example.com");
  store.writes.length = 0;
  await writer.begin(TERM);
  assert.deepEqual(store.writes.slice(0, 2), ["compact index", "index"]);
  await add("term.example.com");
  assert.deepEqual(store.writes.slice(1), ["compact index", "index"]);
});

test("an index is not late by more shards than can stay as spares", async () => {
  const store = new TestStore();
  const writer = new MapWriter(store, () => 0);
  const shards = shardsOf(names(4_000));
  await writer.publish(snapshotOf(shards), TERM);
  const written: number[] = [];
  let removed = 0;
  for (let change = 0; change < 40; change += 1) {
    shards.set(`n${change}.example.org`, [IP]);
    store.writes.length = 0;
    await writer.publish(snapshotOf(shards), TERM);
    if (store.writes.includes("index")) written.push(change);
    removed += store.writes.filter((each) => each.startsWith("remove")).length;
  }
  assert.ok(written.length >= 2 && written.length <= 5, written.join());
  assert.equal(removed, 0);
  assert.equal(writer.loadLines().size, 4_040);
});
