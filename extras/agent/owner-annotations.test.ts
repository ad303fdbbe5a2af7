import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { type OwnerRef, podFacts } from "#lib/workloads/pods.ts";
import { LineLog } from "#test/fakes/clock.ts";
import type { NodePod } from "./node-pod.ts";
import { createOwnerAnnotations } from "./owner-annotations.ts";

const ON_CHANGE = "switchback.dev/on-change";

function podOf(owner: OwnerRef | undefined): NodePod {
  const facts = podFacts({ metadata: { namespace: "shop", name: "a", uid: "u" } });
  return { ...facts, owner, managedAliases: [], ended: false };
}

const replicaSet = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "app-1" };

/** An API server with workloads by path. If `rig.status` is set, it refuses with that status. */
function start(objects: Record<string, object>, random = 0.5) {
  const log = new LineLog();
  const rig = { spreadMs: 0, now: 0, asked: [] as string[], learned: 0, status: 0 };
  const client = {
    async get<T>(path: string): Promise<T> {
      rig.asked.push(path);
      if (rig.status !== 0) throw new SwitchbackError("kube-status", "refused", { status: rig.status });
      const found = objects[path.replace("/apis/apps/v1/namespaces/shop/", "")];
      if (found === undefined) throw new SwitchbackError("kube-status", "not found", { status: 404 });
      return { metadata: found } as T;
    },
  };
  const onLearned = () => {
    rig.learned += 1;
  };
  const owners = createOwnerAnnotations({
    client,
    log,
    now: () => rig.now,
    random: () => random,
    spreadMs: () => rig.spreadMs,
    onLearned,
  });
  return { rig, owners, objects, log };
}

async function settle(): Promise<void> {
  for (let turns = 0; turns < 5; turns += 1) await turn();
}

test("the Deployment's annotation is found through the ReplicaSet, requested once and remembered", async () => {
  const deployment = { apiVersion: "apps/v1", kind: "Deployment", name: "app", controller: true };
  const { rig, owners } = start({
    "replicasets/app-1": { annotations: { [ON_CHANGE]: "none" }, ownerReferences: [deployment] },
    "deployments/app": { annotations: { [ON_CHANGE]: "live" } },
  });
  assert.deepEqual(owners.onChangeOf(podOf(replicaSet)), { known: false });
  await settle();
  assert.equal(rig.learned, 1);
  assert.deepEqual(owners.onChangeOf(podOf(replicaSet)), { known: true, onChange: "live" });
  await settle();
  assert.equal(rig.asked.length, 2);
});

test("a changed annotation is detected within minutes and reported", async () => {
  const set = { apiVersion: "apps/v1", kind: "StatefulSet", name: "db" };
  const { rig, owners, objects } = start({ "statefulsets/db": { annotations: { [ON_CHANGE]: "live" } } });
  owners.onChangeOf(podOf(set));
  await settle();
  objects["statefulsets/db"] = {};
  rig.now += 10 * 60_000;
  assert.deepEqual(owners.onChangeOf(podOf(set)), { known: true, onChange: "live" });
  await settle();
  assert.deepEqual(owners.onChangeOf(podOf(set)), { known: true, onChange: undefined });
  assert.equal(rig.learned, 2);
});

test("if an annotation cannot be read, its last value stays, and the request is retried", async () => {
  const { rig, owners } = start({ "replicasets/app-1": {} });
  rig.status = 403;
  owners.onChangeOf(podOf(replicaSet));
  await settle();
  assert.deepEqual(owners.onChangeOf(podOf(replicaSet)), { known: false });
  assert.equal(rig.asked.length, 1, "not at once");
  rig.status = 0;
  rig.now += 20_000;
  owners.onChangeOf(podOf(replicaSet));
  await settle();
  assert.deepEqual(owners.onChangeOf(podOf(replicaSet)), { known: true, onChange: undefined });
  rig.status = 500;
  rig.now += 10 * 60_000;
  owners.onChangeOf(podOf(replicaSet));
  await settle();
  assert.deepEqual(owners.onChangeOf(podOf(replicaSet)), { known: true, onChange: undefined });
});

test("without an owner, or if it has another kind or group or is gone, there is no annotation", async () => {
  const { rig, owners } = start({});
  for (const owner of [
    undefined,
    { apiVersion: "batch/v1", kind: "Job", name: "j" },
    { apiVersion: "example.com/v1", kind: "ReplicaSet", name: "r" },
    { apiVersion: "apps/v1", kind: "toString", name: "r" },
  ])
    assert.deepEqual(owners.onChangeOf(podOf(owner)), { known: true, onChange: undefined });
  assert.equal(rig.asked.length, 0);
  owners.onChangeOf(podOf(replicaSet));
  await settle();
  assert.deepEqual(owners.onChangeOf(podOf(replicaSet)), { known: true, onChange: undefined });
});

test("owners that no pod has any more are forgotten", async () => {
  const { rig, owners } = start({ "replicasets/app-1": {} });
  owners.onChangeOf(podOf(replicaSet));
  await settle();
  owners.tidy();
  owners.tidy();
  assert.deepEqual(owners.onChangeOf(podOf(replicaSet)), { known: false });
  await settle();
  assert.equal(rig.asked.length, 2);
});

test("an owner that cannot be read is retried after fifteen seconds, not before, with a log line each", async () => {
  const { rig, owners, log } = start({});
  rig.now = 1_000;
  rig.status = 500;
  const pod = podOf(replicaSet);
  owners.onChangeOf(pod);
  await settle();
  rig.now += 14_999;
  owners.onChangeOf(pod);
  await settle();
  assert.equal(rig.asked.length, 1);
  rig.now += 1;
  owners.onChangeOf(pod);
  await settle();
  assert.equal(rig.asked.length, 2);
  assert.deepEqual(log.messages, ["annotation: not read", "annotation: not read"]);
  assert.deepEqual(rig.learned, 0);
});

for (const [random, dueMs] of [
  [0, 4 * 60_000],
  [0.5, 5 * 60_000],
  [1, 6 * 60_000],
]) {
  test(`an annotation is fresh for ${dueMs} ms if the random number is ${random}`, async () => {
    const { rig, owners } = start({ "replicasets/app-1": {} }, random);
    const pod = podOf(replicaSet);
    owners.onChangeOf(pod);
    await settle();
    assert.equal(rig.learned, 1);
    rig.now += (dueMs ?? 0) - 1;
    owners.onChangeOf(pod);
    await settle();
    assert.equal(rig.asked.length, 1);
    rig.now += 1;
    owners.onChangeOf(pod);
    await settle();
    assert.equal(rig.asked.length, 2);
    assert.equal(rig.learned, 1, "the same word again is no news");
  });
}

test("many pods of one owner cause one request, also while it is not answered", async () => {
  const { rig, owners } = start({ "replicasets/app-1": {} });
  for (let count = 0; count < 5; count += 1) owners.onChangeOf({ ...podOf(replicaSet), uid: `u${count}` });
  await settle();
  assert.equal(rig.asked.length, 1);
});

test("each owner, by namespace, kind and name, has its own annotation", async () => {
  const of = (kind: string, name: string) => ({ apiVersion: "apps/v1", kind, name });
  const { owners, rig } = start({
    "statefulsets/db": { annotations: { [ON_CHANGE]: "live" } },
    "daemonsets/db": { annotations: { [ON_CHANGE]: "none" } },
    "deployments/db": { annotations: { [ON_CHANGE]: "restart" } },
  });
  const annotations = () =>
    ["StatefulSet", "DaemonSet", "Deployment"].map((kind) => owners.onChangeOf(podOf(of(kind, "db"))));
  annotations();
  await settle();
  assert.deepEqual(
    annotations().map((answer) => answer.known && answer.onChange),
    ["live", "none", "restart"],
  );
  owners.onChangeOf({ ...podOf(of("StatefulSet", "db")), namespace: "bank" });
  await settle();
  assert.match(rig.asked.at(-1) ?? "", /namespaces.bank/);
});

test("if a ReplicaSet's controller is no workload, nothing else is read; other owners have no effect", async () => {
  const owner = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "above", controller: true };
  const { owners, rig } = start({
    "replicasets/app-1": { ownerReferences: [{ ...owner, kind: "Deployment", name: "no", controller: false }, owner] },
    "replicasets/above": { ownerReferences: [{ ...owner, kind: "Deployment", name: "top" }] },
    "deployments/top": { annotations: { [ON_CHANGE]: "live" } },
    "deployments/no": { annotations: { [ON_CHANGE]: "live" } },
  });
  owners.onChangeOf(podOf(replicaSet));
  await settle();
  assert.deepEqual(owners.onChangeOf(podOf(replicaSet)), { known: true, onChange: undefined });
  assert.deepEqual(
    rig.asked.map((path) => path.split("/").at(-1)),
    ["app-1"],
  );
});

test("an owner that is looked up between two calls of `tidy` is kept", async () => {
  const { rig, owners } = start({ "replicasets/app-1": {} });
  owners.onChangeOf(podOf(replicaSet));
  await settle();
  for (let count = 0; count < 3; count += 1) {
    owners.tidy();
    assert.deepEqual(owners.onChangeOf(podOf(replicaSet)), { known: true, onChange: undefined });
  }
  assert.equal(rig.asked.length, 1);
});

test("with many agents, an annotation is kept for longer, with a random fifth more or less", async () => {
  const set = { apiVersion: "apps/v1", kind: "StatefulSet", name: "db" };
  for (const [random, keptMs] of [
    [0, 384_000],
    [0.5, 480_000],
    [1, 576_000],
  ] as const) {
    const { rig, owners } = start({ "statefulsets/db": {} }, random);
    rig.spreadMs = 180_000;
    owners.onChangeOf(podOf(set));
    await settle();
    rig.now = keptMs - 1;
    owners.onChangeOf(podOf(set));
    await settle();
    assert.equal(rig.asked.length, 1);
    rig.now = keptMs;
    owners.onChangeOf(podOf(set));
    await settle();
    assert.equal(rig.asked.length, 2);
  }
});

test("a namespace's facts are read by its name, and kept like the annotation of a workload", async () => {
  const path = "/api/v1/namespaces/shop";
  const labels = { "switchback.dev/inject": "enabled" };
  const { rig, owners, objects } = start({ [path]: { labels, annotations: { [ON_CHANGE]: "live" } } });
  assert.equal(owners.namespaceOf("shop"), undefined);
  await settle();
  assert.deepEqual(owners.namespaceOf("shop"), { inject: "enabled", onChange: "live" });
  assert.deepEqual([rig.asked, rig.learned], [[path], 1]);
  objects[path] = { labels: { "switchback.dev/inject": "disabled" }, annotations: { [ON_CHANGE]: "live" } };
  const readAgain = async () => {
    rig.now += 10 * 60_000;
    owners.namespaceOf("shop");
    await settle();
    return owners.namespaceOf("shop");
  };
  assert.deepEqual(await readAgain(), { inject: "disabled", onChange: "live" });
  assert.equal(rig.learned, 2, "a label that changed is learned too");
  rig.status = 500;
  assert.deepEqual(await readAgain(), { inject: "disabled", onChange: "live" }, "without an answer it stays");
  rig.status = 0;
  delete objects[path];
  assert.deepEqual(await readAgain(), { inject: undefined, onChange: undefined });
});
