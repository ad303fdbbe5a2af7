import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { LineLog } from "#test/fakes/clock.ts";
import { MemoryKube, refusal } from "#test/fakes/memory-kube.ts";
import { settled } from "#test/fakes/stopped-time.ts";
import { podFacts } from "./pods.ts";
import { KEEP_MS, type WorkloadChange, WorkloadInformers } from "./workload-informers.ts";

const SHOP = "/apis/apps/v1/namespaces/shop";
const KEY = "shop/Deployment/web";
const STAMP = "2026-01-01T00:00:00.000Z";
const never = new AbortController().signal;

function podOf(kind: string, namespace = "shop", apiVersion = "apps/v1") {
  const owner = { apiVersion, kind, name: "web-1", uid: "u", controller: true };
  return podFacts({ metadata: { namespace, name: `of-${kind}`, ownerReferences: [owner] } });
}

/** Kinds of pod owners. A ReplicaSet stands for a Deployment. */
const OWNERS = ["ReplicaSet", "StatefulSet", "DaemonSet"];

/** `open` starts with one pod of each owner in each namespace. */
function rig(t: TestContext, namespaces: readonly string[] = ["shop"]) {
  const kube = new MemoryKube();
  const log = new LineLog();
  const heard: { changes: number; all: Array<string | undefined> } = { changes: 0, all: [] };
  const onChange = ({ namespace, key }: WorkloadChange) => {
    heard.changes += 1;
    heard.all.push(key ?? namespace);
  };
  kube.put(`${SHOP}/deployments/web`, { metadata: { generation: 1 }, spec: { paused: false } });
  const open = () => {
    const workloads = new WorkloadInformers({ client: kube.client, log, namespaces });
    workloads.follow(onChange);
    t.after(() => workloads.stop());
    for (const namespace of namespaces)
      for (const kind of OWNERS) workloads.changePod({ key: kind, after: podOf(kind, namespace) });
    return workloads;
  };
  return { kube, log, heard, open };
}

const versionOf = (workloads: WorkloadInformers) => {
  const state = workloads.stateOf(KEY);
  return typeof state === "string" ? state : state.resourceVersion;
};

test("a workload is unknown until its kind and the ReplicaSets are listed, then absent if missing", async (t) => {
  for (const last of ["deployments", "replicasets"]) {
    const { kube, open, heard } = rig(t);
    kube.silent.add(`${SHOP}/${last}`);
    const workloads = open();
    await settled();
    const before = heard.changes;
    assert.equal(workloads.stateOf(KEY), "unknown", last);
    kube.speak(`${SHOP}/${last}`);
    await settled();
    assert.equal(versionOf(workloads), "2");
    assert.equal(workloads.stateOf("shop/Deployment/other"), "absent");
    assert.equal(workloads.stateOf("shop/StatefulSet/web"), "absent");
    assert.ok(heard.changes > before, "the list itself is news");
  }
});

test("a workload is forbidden while listing its kind or the ReplicaSets is refused, then known", async (t) => {
  for (const refused of ["deployments", "replicasets"]) {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const { kube } = rig(t);
    let status: number | undefined = 403;
    const get: typeof kube.client.get = async (path, ...rest) => {
      if (status !== undefined && path === `${SHOP}/${refused}`) throw refusal(path, status);
      return await kube.client.get(path, ...rest);
    };
    const client = Object.assign(Object.create(kube.client) as typeof kube.client, { get });
    const workloads = new WorkloadInformers({ client, log: new LineLog(), namespaces: ["shop"] });
    t.after(() => workloads.stop());
    assert.equal(workloads.stateOf(KEY), "unknown", "not asked yet");
    await settled();
    assert.equal(workloads.stateOf(KEY), "forbidden", refused);
    assert.equal(await patch(workloads), "conflict");
    status = 503;
    t.mock.timers.tick(30_000);
    await settled();
    assert.equal(workloads.stateOf(KEY), "unknown", "another problem is not this one");
    status = undefined;
    t.mock.timers.tick(30_000);
    await settled();
    assert.equal(versionOf(workloads), "2");
    t.mock.timers.reset();
  }
});

test("a change has the key of the workload or ReplicaSet, and each first list reports the namespace", async (t) => {
  const { kube, open, heard } = rig(t);
  kube.put(`${SHOP}/replicasets/web-1`, { metadata: {} });
  open();
  await settled();
  const [first, replicaSet] = ["shop/Deployment/web", "shop/ReplicaSet/web-1"];
  assert.deepEqual(heard.all.toSorted(), ["shop", "shop", "shop", "shop", first, replicaSet]);
});

test("an unlisted namespace and an unsupported kind are unknown and not watched", async (t) => {
  const { kube, open } = rig(t);
  const workloads = open();
  await settled();
  assert.deepEqual([workloads.has("shop"), workloads.has("bank")], [true, false]);
  assert.equal(workloads.stateOf("bank/Deployment/web"), "unknown");
  assert.equal(workloads.stateOf("shop/Job/web"), "unknown");
  assert.equal(workloads.parentOf("bank", "web-1"), undefined);
  assert.deepEqual(
    [...kube.watched].sort(),
    ["daemonsets", "deployments", "replicasets", "statefulsets"].map((kind) => `${SHOP}/${kind}`),
  );
});

test("a kind is watched in a namespace from the first pod it may own until five minutes after the last", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { kube, heard } = rig(t);
  const changes: WorkloadChange[] = [];
  const onChange = (change: WorkloadChange) => void changes.push(change);
  const workloads = new WorkloadInformers({ client: kube.client, log: new LineLog(), namespaces: ["shop"] });
  workloads.follow(onChange);
  t.after(() => workloads.stop());
  const watched = () => kube.watched.map((path) => path.slice(SHOP.length + 1)).sort();
  const change = async (before: string | undefined, after: string | undefined) => {
    workloads.changePod({ key: "x", ...(before && { before: podOf(before) }), ...(after && { after: podOf(after) }) });
    await settled();
  };
  await settled();
  assert.deepEqual(watched(), [], "no pods, no watches");
  for (const other of [podOf("Job", "shop", "batch/v1"), podOf("ReplicaSet", "bank"), podFacts({})]) {
    workloads.changePod({ key: "y", after: other });
  }
  await change(undefined, "StatefulSet");
  assert.deepEqual(watched(), ["statefulsets"]);
  await change(undefined, "StatefulSet");
  await change("StatefulSet", "ReplicaSet");
  assert.deepEqual(watched(), ["deployments", "replicasets", "statefulsets"]);
  await change("StatefulSet", undefined);
  t.mock.timers.tick(KEEP_MS - 1);
  await settled();
  assert.deepEqual(watched(), ["deployments", "replicasets", "statefulsets"]);
  changes.length = 0;
  t.mock.timers.tick(1);
  await settled();
  assert.deepEqual([watched(), changes], [["deployments", "replicasets"], [{ namespace: "shop", key: undefined }]]);
  await change("ReplicaSet", undefined);
  t.mock.timers.tick(KEEP_MS - 1);
  await change(undefined, "ReplicaSet");
  t.mock.timers.tick(KEEP_MS);
  await settled();
  assert.deepEqual(watched(), ["deployments", "replicasets"], "pods that come back in time keep the watches");
  assert.equal(heard.changes, 0);
});

test("a workload without pods is watched while its state is requested, and unknown until it is listed", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { kube } = rig(t);
  const options = { client: kube.client, log: new LineLog(), namespaces: ["shop"] };
  const workloads = new WorkloadInformers(options);
  const version = kube.at(`${SHOP}/deployments/web`)?.metadata.resourceVersion;
  t.after(() => workloads.stop());
  assert.equal(workloads.stateOf(KEY), "unknown");
  await settled();
  assert.equal(versionOf(workloads), version);
  t.mock.timers.tick(KEEP_MS - 1);
  assert.equal(versionOf(workloads), version);
  t.mock.timers.tick(KEEP_MS - 1);
  await settled();
  assert.deepEqual(kube.watched.sort(), [`${SHOP}/deployments`, `${SHOP}/replicasets`]);
  t.mock.timers.tick(1);
  await settled();
  assert.deepEqual(kube.watched, []);
  assert.equal(workloads.stateOf(KEY), "unknown", "what was known may be outdated");
  await workloads.stop();
  assert.equal(workloads.stateOf(KEY), "unknown");
  await settled();
  assert.deepEqual(kube.watched, [], "once stopped, nothing is opened");
});

test("a ReplicaSet's parent is its controller of the group apps, or none", async (t) => {
  const { kube, open } = rig(t);
  const owner = { apiVersion: "apps/v1", kind: "Deployment", name: "web", uid: "u", controller: true };
  const owners: Record<string, object[]> = {
    "web-1": [{ ...owner, name: "another", controller: false }, owner],
    "web-2": [{ ...owner, apiVersion: "argoproj.io/v1alpha1", kind: "Rollout" }],
    "web-3": [{ ...owner, controller: false }],
    "web-4": [],
  };
  for (const [name, ownerReferences] of Object.entries(owners)) {
    kube.put(`${SHOP}/replicasets/${name}`, { metadata: { ownerReferences } });
  }
  const workloads = open();
  await settled();
  assert.deepEqual(workloads.parentOf("shop", "web-1"), { kind: "Deployment", name: "web" });
  for (const name of ["web-2", "web-3", "web-4"]) assert.equal(workloads.parentOf("shop", name), "none", name);
  assert.equal(workloads.parentOf("shop", "web-5"), undefined);
});

for (const kind of ["deployments", "statefulsets", "daemonsets", "replicasets"]) {
  test(`a change of ${kind} is reported`, async (t) => {
    const { kube, open, heard } = rig(t);
    open();
    await settled();
    const before = heard.changes;
    kube.put(`${SHOP}/${kind}/one`, {});
    await settled();
    assert.equal(heard.changes, before + 1);
  });
}

/** Patches the version that the watch shows, as if the restart had just been decided. */
function patch(workloads: WorkloadInformers, { key = KEY, version = versionOf(workloads), signal = never } = {}) {
  return workloads.patch(key, { stamp: STAMP, resourceVersion: version ?? "", signal });
}

test("the version of the decision is patched, even if the watch already has a newer one", async (t) => {
  const { kube, open } = rig(t);
  const workloads = open();
  await settled();
  const version = versionOf(workloads);
  kube.put(`${SHOP}/deployments/web`, { metadata: { generation: 2 } });
  await settled();
  assert.notEqual(versionOf(workloads), version);
  assert.equal(await patch(workloads, { version }), "conflict");
  assert.equal(kube.at(`${SHOP}/deployments/web`)?.spec, undefined);
});

test("a restart sets one annotation on the template, only on the object that was seen, in our name", async (t) => {
  const { kube, open } = rig(t);
  const workloads = open();
  await settled();
  assert.equal(await patch(workloads), "patched");
  assert.deepEqual(kube.writes, [
    {
      method: "PATCH",
      path: `${SHOP}/deployments/web`,
      fieldManager: "switchback-restart",
      body: {
        metadata: { uid: `${SHOP}/deployments/web`, resourceVersion: "2" },
        spec: { template: { metadata: { annotations: { "switchback.dev/restartedAt": STAMP } } } },
      },
    },
  ]);
});

test("the answer to a patch counts until the watch reports the workload again", async (t) => {
  const { kube, open } = rig(t);
  const workloads = open();
  await settled();
  const patched = patch(workloads);
  await patched;
  const state = workloads.stateOf(KEY);
  assert.ok(typeof state !== "string");
  assert.deepEqual([state.restartedAt, state.generation, state.resourceVersion], [STAMP, 2, "3"]);
  await settled();
  kube.put(`${SHOP}/deployments/web`, { metadata: { generation: 3 } });
  await settled();
  assert.equal(versionOf(workloads), "4");
  // Changes of another Deployment, and of another kind with the same name, do not affect it.
  await patch(workloads);
  kube.put(`${SHOP}/statefulsets/web`, {});
  kube.put(`${SHOP}/deployments/other`, {});
  assert.equal(versionOf(workloads), "5");
  await settled();
  kube.remove(`${SHOP}/deployments/web`);
  await settled();
  assert.equal(workloads.stateOf(KEY), "absent");
});

test("a change that the watch has not reported yet is a conflict, and nothing is written", async (t) => {
  const { kube, log, open } = rig(t);
  const workloads = open();
  await settled();
  kube.put(`${SHOP}/deployments/web`, { metadata: { generation: 2 } });
  assert.equal(await patch(workloads), "conflict");
  assert.equal(kube.at(`${SHOP}/deployments/web`)?.spec, undefined);
  assert.deepEqual(log.lines[0]?.fields, { workload: KEY, outcome: "conflict" });
  assert.match(log.messages[0] ?? "", /^not restarted: .*409/);
});

test("a workload that was paused after the decision is not restarted", async (t) => {
  const { kube, log, open } = rig(t);
  const workloads = open();
  await settled();
  kube.put(`${SHOP}/deployments/web`, { spec: { paused: true } });
  await settled();
  assert.equal(await patch(workloads), "conflict");
  assert.deepEqual(kube.writes, []);
  assert.deepEqual(log.lines[0]?.fields, { workload: KEY, outcome: "conflict" });
  assert.match(log.messages[0] ?? "", /^not restarted: spec\.paused/);
});

for (const [status, outcome] of [
  [403, "forbidden"],
  [404, "gone"],
  [409, "conflict"],
  [422, "forbidden"],
] as const) {
  test(`a patch that is answered with ${status} is ${outcome}, and the known state stays`, async (t) => {
    const { kube, open } = rig(t);
    const workloads = open();
    await settled();
    kube.onWrite = ({ path }) => {
      throw refusal(path, status);
    };
    assert.equal(await patch(workloads), outcome);
    assert.equal(versionOf(workloads), "2");
  });
}

test("any other failure of a patch leaves the outcome uncertain, and is thrown", async (t) => {
  const { kube, open, log } = rig(t);
  const workloads = open();
  await settled();
  for (const error of [refusal(KEY, 500), refusal(KEY, 429), new Error("no answer")]) {
    kube.onWrite = () => {
      throw error;
    };
    await assert.rejects(patch(workloads), error);
  }
  kube.onWrite = () => {};
  const ended = AbortSignal.abort(new Error("the term is over"));
  await assert.rejects(patch(workloads, { signal: ended }), /the term is over/);
  assert.deepEqual(log.messages, []);
});

test("an unknown workload is not a deleted one, and neither is patched", async (t) => {
  const { kube, open } = rig(t);
  const workloads = open();
  assert.equal(await patch(workloads), "conflict");
  await settled();
  assert.equal(await patch(workloads, { key: "shop/Deployment/other" }), "gone");
  assert.deepEqual(kube.writes, []);
});

test("inactiveMs is the longest silence of any watch, and 0 without a watch", async (t) => {
  let steady = performance.now();
  t.mock.method(performance, "now", () => steady);
  const { kube, open } = rig(t);
  assert.equal(new WorkloadInformers({ client: kube.client, log: new LineLog(), namespaces: [] }).inactiveMs, 0);
  const workloads = open();
  await settled();
  const all = [...kube.watched];
  for (const silent of all) {
    for (const path of all) kube.bookmark(path);
    steady += 1_000;
    for (const path of all) if (path !== silent) kube.bookmark(path);
    assert.equal(workloads.inactiveMs, 1_000, silent);
  }
});

test("after stop, nothing is watched", async (t) => {
  const { kube, open, heard } = rig(t, ["shop", "bank"]);
  const workloads = open();
  await settled();
  assert.equal(kube.watched.length, 8);
  await workloads.stop();
  assert.deepEqual(kube.watched, []);
  const before = heard.changes;
  kube.put(`${SHOP}/deployments/web`, {});
  await settled();
  assert.equal(heard.changes, before);
});
