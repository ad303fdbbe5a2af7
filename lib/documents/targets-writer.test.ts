import assert from "node:assert/strict";
import { test } from "node:test";
import { NO_VERSION } from "#lib/kube/leader-client.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { MemoryKube, refusal } from "#test/fakes/memory-kube.ts";
import { turns } from "#test/fakes/stopped-time.ts";
import { type PublishedTarget, renderTargets } from "./targets-format.ts";
import { TargetsWriter } from "./targets-writer.ts";

const CONFIG_MAPS = "/api/v1/namespaces/sys/configmaps";
const PATH = `${CONFIG_MAPS}/switchback-targets`;
const TARGET: PublishedTarget = {
  name: "edge",
  upstream: "edge.infra.svc",
  ports: [{ port: 443, listenPort: 16_000, upstreamPort: 443, protocol: "v1" }],
  clusterIPs: ["198.51.100.9"],
};

async function settle(): Promise<void> {
  await turns(20);
}

async function rig(prepare: (parts: { api: MemoryKube }) => void = () => {}) {
  const kube = new MemoryKube();
  prepare({ api: kube });
  const log = new LineLog();
  const store = new TargetsWriter({ client: kube.client, namespace: "sys", log });
  assert.deepEqual([store.synced, store.inactiveMs], [false, 0]);
  const state = { changes: 0 };
  store.start(() => {
    state.changes += 1;
  });
  await settle();
  return { kube, log, store, state };
}

test("targets are written once, and count at once", async () => {
  const { kube, store, state } = await rig();
  assert.deepEqual([store.synced, state.changes], [true, 1]);
  assert.deepEqual(store.published, { revision: "", targets: [] });
  assert.equal(await store.write([TARGET]), true);
  const { text, targetsRevision } = renderTargets([TARGET]);
  assert.deepEqual(store.published, { version: 1, revision: targetsRevision, targets: [TARGET] });
  assert.equal(await store.write([TARGET]), false);
  await settle();
  assert.equal(await store.write([TARGET]), false);
  const metadata = { name: "switchback-targets", namespace: "sys", resourceVersion: NO_VERSION };
  const body = { apiVersion: "v1", kind: "ConfigMap", metadata, data: { "targets.json": text } };
  assert.deepEqual(kube.writes, [{ method: "APPLY", path: PATH, fieldManager: "switchback-controller", body }]);
  await store.stop();
});

test("a spoiled or deleted document is noticed, does not count, and is written again", async () => {
  const { kube, log, store, state } = await rig();
  await store.write([TARGET]);
  await settle();
  state.changes = 0;
  for (const spoil of [() => kube.put(PATH, { data: { "targets.json": "{" } }), () => kube.put(PATH, {})]) {
    spoil();
    await settle();
    assert.deepEqual(log.lines.at(-1)?.fields, { code: "targets-malformed" });
    assert.deepEqual(store.published.targets, [TARGET]);
    assert.equal(await store.write([TARGET]), true);
    await settle();
  }
  const { length } = log.lines;
  kube.remove(PATH);
  await settle();
  assert.equal(log.lines.length, length, "that it is gone is nothing malformed");
  assert.deepEqual(store.published.targets, [TARGET]);
  assert.equal(await store.write([TARGET]), true);
  assert.equal(state.changes, 5);
  await store.stop();
});

test("a refused write changes nothing and has to be repeated", async () => {
  const { kube, store } = await rig();
  kube.onWrite = ({ path }) => {
    throw refusal(path, 503);
  };
  await assert.rejects(store.write([TARGET]), /503/);
  assert.deepEqual(store.published.targets, []);
  kube.onWrite = () => {};
  assert.equal(await store.write([TARGET]), true);
  await store.stop();
});

test("an edit that is seen before the answer to the own write is reverted", async () => {
  const { kube, store } = await rig(({ api }) => {
    const { apply } = api.client;
    const late: typeof apply = async (...args) => {
      const written = await apply(...args);
      await settle();
      api.put(PATH, { data: {} });
      await settle();
      return written as never;
    };
    Object.assign(api.client, { apply: late });
  });
  await store.write([TARGET]);
  assert.equal(await store.write([TARGET]), true);
  assert.equal(kube.writes.length, 2);
  await store.stop();
});

test("an earlier leader's publication is read, and not written again", async () => {
  const { kube, store } = await rig(({ api }) =>
    api.put(PATH, { data: { "targets.json": renderTargets([TARGET]).text } }),
  );
  assert.deepEqual(store.published.targets, [TARGET]);
  assert.equal(await store.write([TARGET]), false);
  assert.deepEqual(kube.writes, []);
  await store.stop();
});

test("one that was never started can be stopped", async () => {
  await new TargetsWriter({ client: new MemoryKube().client, namespace: "sys", log: new LineLog() }).stop();
});

test("only its own ConfigMap is read, and stopping ends the watch", async (t) => {
  const { kube, store, state } = await rig();
  kube.put(`${CONFIG_MAPS}/other`, { data: { "targets.json": "{" } });
  await settle();
  assert.equal(state.changes, 1);
  const { now } = performance;
  const later = t.mock.method(performance, "now", () => now.call(performance) + 60_000);
  assert.ok(store.inactiveMs >= 60_000);
  later.mock.restore();
  assert.deepEqual(kube.watched, [CONFIG_MAPS]);
  await store.stop();
  assert.deepEqual(kube.watched, []);
});

test("questions are published beside the targets, and a change of either is written", async () => {
  const { kube, log, store } = await rig();
  const question = {
    target: "edge",
    port: 80,
    speaks: "http",
    upstream: "edge.infra.svc",
    upstreamPort: 80,
    name: "shop.example.com",
    namespace: "infra",
    asker: "10.0.0.7",
  } as const;
  const written: boolean[] = [];
  for (const questions of [[], [], [question], [question]]) {
    written.push(await store.write([TARGET], questions));
    await settle();
  }
  assert.deepEqual(written, [true, false, true, false]);
  assert.deepEqual([store.questions, store.published.targets], [[question], [TARGET]]);
  kube.put(PATH, { data: { "targets.json": renderTargets([TARGET]).text, "questions.json": "{" } });
  await settle();
  assert.deepEqual(store.questions, [question], "a spoilt document does not count");
  assert.match(JSON.stringify(log.lines), /questions-malformed/);
  await store.stop();
});
