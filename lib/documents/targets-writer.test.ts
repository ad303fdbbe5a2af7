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
  assert.equal(state.changes, 6);
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

test("an earlier leader's publication is read, and not written again", async () => {
  const { kube, store } = await rig(({ api }) =>
    api.put(PATH, { data: { "targets.json": renderTargets([TARGET]).text } }),
  );
  assert.deepEqual(store.published.targets, [TARGET]);
  assert.equal(await store.write([TARGET]), false);
  assert.deepEqual(kube.writes, []);
  await store.stop();
});

test("a change of the proxies is written", async () => {
  const { store } = await rig();
  const written: boolean[] = [];
  const [two, three] = [
    ["10.0.0.1", "10.0.0.2"],
    ["10.0.0.1", "10.0.0.3"],
  ];
  for (const proxies of [two, two, three]) {
    written.push(await store.write([TARGET], proxies));
    await settle();
  }
  assert.deepEqual([written, store.published.proxies], [[true, false, true], three]);
  await store.stop();
});
