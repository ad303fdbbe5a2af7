import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { silentLogger } from "../telemetry/log.ts";
import { MemoryKube, refusal } from "../test/fakes/memory-kube.ts";
import { KubeMapStore } from "./map-store-kube.ts";

const CONFIG_MAPS = "/api/v1/namespaces/sys/configmaps";
const LABELS = { "switchback.dev/map": "hosts" };

/** Lets everything settle that waits for no timer. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
}

async function rig(t: TestContext, prepare: (kube: MemoryKube) => void = () => {}) {
  const kube = new MemoryKube();
  prepare(kube);
  const store = new KubeMapStore({ client: kube.client, namespace: "sys", log: silentLogger });
  const state = { changes: 0 };
  assert.equal(store.synced, false);
  assert.equal(store.inactiveMs, 0);
  store.start(() => {
    state.changes += 1;
  });
  t.after(() => store.stop());
  await settle();
  return { kube, store, state };
}

test("what is there is read, by its label, and followed", async (t) => {
  const annotations = { "switchback.dev/hold": "held", "switchback.dev/confirm": "id" };
  const { kube, store, state } = await rig(t, (api) => {
    api.put(`${CONFIG_MAPS}/switchback-hosts`, {
      metadata: { labels: LABELS, annotations },
      data: { "index.json": "i" },
    });
    api.put(`${CONFIG_MAPS}/switchback-hosts-3`, { metadata: { labels: LABELS }, data: { hosts: "h" } });
    api.put(`${CONFIG_MAPS}/switchback-hosts-4`, { data: { hosts: "not labelled" } });
    api.put(`${CONFIG_MAPS}/stranger`, { metadata: { labels: LABELS }, data: { hosts: "x" } });
  });
  assert.equal(store.synced, true);
  assert.ok(state.changes >= 4, "each, and that all of them were read");
  assert.deepEqual(store.index(), { text: "i", hold: "held", confirmed: "id" });
  assert.deepEqual(store.shardNames(), ["switchback-hosts-3"]);
  assert.equal(store.shard("switchback-hosts-3"), "h");
  state.changes = 0;
  kube.put(`${CONFIG_MAPS}/switchback-hosts-3`, { metadata: { labels: LABELS }, data: { hosts: "other" } });
  await settle();
  assert.equal(store.shard("switchback-hosts-3"), "other");
  kube.remove(`${CONFIG_MAPS}/switchback-hosts-3`);
  kube.put(`${CONFIG_MAPS}/switchback-hosts`, { metadata: { labels: LABELS } });
  await settle();
  assert.equal(store.shard("switchback-hosts-3"), undefined);
  assert.deepEqual(store.shardNames(), []);
  assert.equal(store.index(), undefined, "an index without a text is none");
  assert.equal(state.changes, 3);
});

test("what it writes counts at once, and is what the readers look for", async (t) => {
  const { kube, store } = await rig(t);
  await store.writeShard("switchback-hosts-0", "text", "r1");
  await store.writeIndex("index", "hold");
  assert.equal(store.shard("switchback-hosts-0"), "text");
  assert.deepEqual(store.index(), { text: "index", hold: "hold", confirmed: undefined });
  const shard = kube.at(`${CONFIG_MAPS}/switchback-hosts-0`);
  assert.deepEqual([shard?.metadata.labels, shard?.data], [LABELS, { hosts: "text" }]);
  assert.deepEqual(shard?.metadata.annotations, { "switchback.dev/revision": "r1" });
  await store.writeIndex("index", undefined);
  assert.deepEqual(kube.at(`${CONFIG_MAPS}/switchback-hosts`)?.metadata.annotations, {});
  assert.equal(store.index()?.hold, undefined);
});

test("a shard that is gone already is removed; one that may not be deleted stays", async (t) => {
  const { kube, store } = await rig(t);
  await store.writeShard("switchback-hosts-0", "text", "r1");
  kube.onWrite = ({ path }) => {
    throw refusal(path, 403);
  };
  await assert.rejects(store.removeShard("switchback-hosts-0"), /403/);
  assert.equal(store.shard("switchback-hosts-0"), "text");
  kube.onWrite = ({ path }) => {
    throw refusal(path, 404);
  };
  await store.removeShard("switchback-hosts-0");
  assert.equal(store.shard("switchback-hosts-0"), undefined);
  await assert.rejects(store.writeShard("switchback-hosts-1", "text", "r1"), /404/);
  assert.equal(store.shard("switchback-hosts-1"), undefined, "what was refused is not there");
});

test("stopped, it ends its watch; until then the watch's silence is seen", async (t) => {
  const { kube, store } = await rig(t);
  const { now } = performance;
  const later = t.mock.method(performance, "now", () => now.call(performance) + 60_000);
  assert.ok(store.inactiveMs >= 60_000);
  later.mock.restore();
  assert.deepEqual(kube.watched, [CONFIG_MAPS]);
  await store.stop();
  assert.deepEqual(kube.watched, []);
});
