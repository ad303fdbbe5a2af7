import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { Fence } from "#lib/kube/fence.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { MemoryKube, refusal } from "#test/fakes/memory-kube.ts";
import { turns } from "#test/fakes/stopped-time.ts";
import { KubeMapStore } from "./map-store-kube.ts";

const CONFIG_MAPS = "/api/v1/namespaces/sys/configmaps";
const LABELS = { "switchback.dev/map": "hosts" };
const SHARD = "switchback-hosts-0";
const PATH = `${CONFIG_MAPS}/${SHARD}`;

/** Waits until everything has settled that does not wait for a timer. */
async function settle(): Promise<void> {
  await turns(20);
}

async function rig(t: TestContext, prepare: (kube: MemoryKube) => void = () => {}) {
  const kube = new MemoryKube();
  prepare(kube);
  const store = new KubeMapStore({ client: kube.client, namespace: "sys", log: silentLogger });
  const state = { changes: 0, over: false };
  const confirm = async () => {
    if (state.over) throw new SwitchbackError("term-over", "over");
  };
  const term = () => new Fence({ client: kube.client, log: silentLogger, term: { confirm } });
  store.fenceBy(term());
  assert.equal(store.synced, false);
  assert.equal(store.inactiveMs, 0);
  store.start(() => {
    state.changes += 1;
  });
  t.after(() => store.stop());
  await settle();
  return { kube, store, state, term };
}

test("existing ConfigMaps are read by their label, and followed", async (t) => {
  const annotations = { "switchback.dev/hold": "held", "switchback.dev/confirm": "id" };
  const { kube, store, state } = await rig(t, (api) => {
    api.put(`${CONFIG_MAPS}/switchback-hosts`, {
      metadata: { labels: LABELS, annotations },
      data: { "state.json": "s" },
    });
    api.put(`${CONFIG_MAPS}/switchback-hosts-index`, { metadata: { labels: LABELS }, data: { "index.json": "i" } });
    api.put(`${CONFIG_MAPS}/switchback-hosts-3`, { metadata: { labels: LABELS }, data: { hosts: "h" } });
    api.put(`${CONFIG_MAPS}/switchback-hosts-4`, { data: { hosts: "not labelled" } });
    api.put(`${CONFIG_MAPS}/stranger`, { metadata: { labels: LABELS }, data: { hosts: "x" } });
  });
  assert.equal(store.synced, true);
  assert.ok(state.changes >= 5, "each, and that all of them were read");
  assert.deepEqual(store.state(), { text: "s", hold: "held", confirmed: "id" });
  assert.equal(store.index(), "i");
  assert.deepEqual(store.shardNames(), ["switchback-hosts-3"]);
  assert.equal(store.shard("switchback-hosts-3"), "h");
  state.changes = 0;
  kube.put(`${CONFIG_MAPS}/switchback-hosts-index`, { metadata: { labels: LABELS }, data: { "index.json": "j" } });
  kube.put(`${CONFIG_MAPS}/switchback-hosts-3`, { metadata: { labels: LABELS }, data: { hosts: "other" } });
  await settle();
  assert.equal(store.index(), "j");
  assert.equal(store.shard("switchback-hosts-3"), "other");
  kube.remove(`${CONFIG_MAPS}/switchback-hosts-3`);
  kube.put(`${CONFIG_MAPS}/switchback-hosts`, { metadata: { labels: LABELS } });
  await settle();
  assert.equal(store.shard("switchback-hosts-3"), undefined);
  assert.deepEqual(store.shardNames(), []);
  assert.equal(store.state(), undefined, "a state without a text is none");
  assert.equal(state.changes, 4);
});

test("its own writes count at once, and readers find them", async (t) => {
  const { kube, store } = await rig(t);
  await store.beginTerm();
  await store.writeShard(SHARD, "text");
  await store.writeIndex("index");
  await store.writeState("state", "hold");
  assert.equal(store.shard(SHARD), "text");
  assert.equal(store.index(), "index");
  assert.deepEqual(store.state(), { text: "state", hold: "hold", confirmed: undefined });
  const object = (name: string, metadata: object, data: object) => ({
    method: "APPLY",
    path: `${CONFIG_MAPS}/${name}`,
    fieldManager: "switchback-controller",
    body: {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name, namespace: "sys", resourceVersion: "1", labels: LABELS, ...metadata },
      data,
    },
  });
  assert.deepEqual(kube.writes, [
    object(SHARD, {}, { hosts: "text" }),
    object("switchback-hosts-index", {}, { "index.json": "index" }),
    object("switchback-hosts", { annotations: { "switchback.dev/hold": "hold" } }, { "state.json": "state" }),
  ]);
  assert.deepEqual(kube.at(PATH)?.data, { hosts: "text" });
  await store.writeState("state", undefined);
  assert.equal(store.state()?.hold, undefined);
  assert.deepEqual(kube.at(`${CONFIG_MAPS}/switchback-hosts`)?.metadata.annotations, undefined);
});

test("a term begins with new versions of the index and the state, and ends with the Lease", async (t) => {
  const { kube, store, state, term } = await rig(t);
  await store.writeIndex("index");
  await store.writeState("state", undefined);
  await settle();
  const paths = ["switchback-hosts-index", "switchback-hosts"].map((name) => `${CONFIG_MAPS}/${name}`);
  const versions = () => paths.map((path) => kube.at(path)?.metadata.resourceVersion);
  const before = versions();
  store.fenceBy(term());
  await store.beginTerm();
  assert.deepEqual(kube.touched, paths);
  assert.ok(versions().every((version, at) => version !== before[at]));
  await store.writeIndex("of the new term");
  assert.equal(store.index(), "of the new term");
  state.over = true;
  await assert.rejects(store.writeShard(SHARD, "text"), { code: "term-over" });
  assert.equal(kube.at(PATH), undefined);
});

test("without a term nothing is written", async () => {
  const kube = new MemoryKube();
  const store = new KubeMapStore({ client: kube.client, namespace: "sys", log: silentLogger });
  await assert.rejects(store.writeShard(SHARD, "text"), /need a fence/);
  assert.deepEqual(kube.writes, []);
});

test("a write carries the version last read or written, and is refused if the object has another", async (t) => {
  const { kube, store } = await rig(t);
  await store.writeShard(SHARD, "one");
  await store.writeShard(SHARD, "two");
  const { uid, resourceVersion } = kube.at(PATH)?.metadata ?? {};
  kube.onWrite = () => {
    kube.put(PATH, { metadata: { labels: LABELS }, data: { hosts: "somebody's" } });
  };
  await assert.rejects(store.writeShard(SHARD, "three"), /409/);
  const body = kube.writes.at(-1)?.body as { metadata: object } | undefined;
  assert.deepEqual({ ...body?.metadata, uid, resourceVersion }, body?.metadata);
  await settle();
  await assert.rejects(store.removeShard(SHARD), /409/);
  kube.onWrite = () => {};
  await settle();
  assert.equal(store.shard(SHARD), "somebody's");
  await store.writeShard(SHARD, "three");
  assert.equal(kube.field<{ hosts: string }>(PATH, "data").hosts, "three");
});

test("a shard that another created meanwhile is not overwritten, a deleted one not created again", async (t) => {
  const { kube, store } = await rig(t);
  kube.onWrite = () => {
    kube.onWrite = () => {};
    kube.put(PATH, { metadata: { labels: LABELS }, data: { hosts: "another's" } });
  };
  await assert.rejects(store.writeShard(SHARD, "text"), /409/);
  await settle();
  kube.onWrite = () => kube.remove(PATH);
  await assert.rejects(store.writeShard(SHARD, "text"), /409/);
  assert.equal(kube.at(PATH), undefined);
});

test("the echo of an earlier write does not hide a later one", async (t) => {
  const { kube, store, state } = await rig(t);
  await store.writeShard(SHARD, "one");
  const second = store.writeShard(SHARD, "two");
  await second;
  const texts = new Set<string | undefined>();
  for (const before = state.changes; state.changes < before + 2; await new Promise(setImmediate)) {
    texts.add(store.shard(SHARD));
  }
  assert.deepEqual([...texts], ["two"]);
  await store.writeShard(SHARD, "three");
  await store.removeShard(SHARD);
  for (let turn = 0; turn < 20; turn += 1) {
    assert.equal(store.shard(SHARD), undefined);
    await new Promise(setImmediate);
  }
  assert.deepEqual(store.shardNames(), []);
  kube.put(PATH, { metadata: { labels: LABELS, uid: "another" }, data: { hosts: "again" } });
  await settle();
  assert.equal(store.shard(SHARD), "again");
});

test("a shard that is already gone counts as removed, and one whose deletion is forbidden stays", async (t) => {
  const { kube, store } = await rig(t);
  await store.writeShard(SHARD, "text");
  kube.onWrite = ({ path }) => {
    throw refusal(path, 403);
  };
  await assert.rejects(store.removeShard(SHARD), /403/);
  await settle();
  assert.equal(store.shard(SHARD), "text");
  kube.onWrite = ({ path }) => {
    throw refusal(path, 404);
  };
  await store.removeShard(SHARD);
  assert.equal(store.shard(SHARD), undefined);
  await assert.rejects(store.writeShard("switchback-hosts-1", "text"), /404/);
  assert.equal(store.shard("switchback-hosts-1"), undefined, "what was refused is not there");
  const { length } = kube.writes;
  await store.removeShard("switchback-hosts-2");
  assert.equal(kube.writes.length, length, "what is not there is not deleted");
});

test("after stop its watch ends; before that, the watch's inactivity is visible", async (t) => {
  const { kube, store } = await rig(t);
  const { now } = performance;
  const later = t.mock.method(performance, "now", () => now.call(performance) + 60_000);
  assert.ok(store.inactiveMs >= 60_000);
  later.mock.restore();
  assert.deepEqual(kube.watched, [CONFIG_MAPS]);
  await store.stop();
  assert.deepEqual(kube.watched, []);
});
