import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { SwitchbackError } from "../errors/errors.ts";
import { silentLogger } from "../observe/log.ts";
import { createOwners } from "./owners.ts";
import type { NodePod, OwnerRef } from "./pod.ts";

const ON_CHANGE = "switchback.dev/on-change";

function podOf(owner: OwnerRef | undefined): NodePod {
  return { namespace: "shop", name: "a", uid: "u", labels: {}, annotations: {}, owner, ours: [], ended: false };
}

const replicaSet = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "app-1" };

/** An API server of workloads by path; `fail` makes it refuse. */
function start(objects: Record<string, object>) {
  const rig = { now: 0, asked: [] as string[], learned: 0, status: 0 };
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
  const owners = createOwners({ client, log: silentLogger, now: () => rig.now, random: () => 0.5, onLearned });
  return { rig, owners, objects };
}

async function settle(): Promise<void> {
  for (let turns = 0; turns < 5; turns += 1) await turn();
}

test("the word is the Deployment's, by way of the ReplicaSet; it is asked for once and remembered", async () => {
  const deployment = { apiVersion: "apps/v1", kind: "Deployment", name: "app", controller: true };
  const { rig, owners } = start({
    "replicasets/app-1": { annotations: { [ON_CHANGE]: "none" }, ownerReferences: [deployment] },
    "deployments/app": { annotations: { [ON_CHANGE]: "live" } },
  });
  assert.deepEqual(owners.wordOf(podOf(replicaSet)), { known: false });
  await settle();
  assert.equal(rig.learned, 1);
  assert.deepEqual(owners.wordOf(podOf(replicaSet)), { known: true, word: "live" });
  await settle();
  assert.equal(rig.asked.length, 2);
});

test("a changed word is noticed within minutes, and told", async () => {
  const set = { apiVersion: "apps/v1", kind: "StatefulSet", name: "db" };
  const { rig, owners, objects } = start({ "statefulsets/db": { annotations: { [ON_CHANGE]: "live" } } });
  owners.wordOf(podOf(set));
  await settle();
  objects["statefulsets/db"] = {};
  rig.now += 10 * 60_000;
  assert.deepEqual(owners.wordOf(podOf(set)), { known: true, word: "live" });
  await settle();
  assert.deepEqual(owners.wordOf(podOf(set)), { known: true, word: undefined });
  assert.equal(rig.learned, 2);
});

test("what cannot be read stays as it was known, or unknown, and is asked for again", async () => {
  const { rig, owners } = start({ "replicasets/app-1": {} });
  rig.status = 403;
  owners.wordOf(podOf(replicaSet));
  await settle();
  assert.deepEqual(owners.wordOf(podOf(replicaSet)), { known: false });
  assert.equal(rig.asked.length, 1, "not at once");
  rig.status = 0;
  rig.now += 20_000;
  owners.wordOf(podOf(replicaSet));
  await settle();
  assert.deepEqual(owners.wordOf(podOf(replicaSet)), { known: true, word: undefined });
  rig.status = 500;
  rig.now += 10 * 60_000;
  owners.wordOf(podOf(replicaSet));
  await settle();
  assert.deepEqual(owners.wordOf(podOf(replicaSet)), { known: true, word: undefined });
});

test("no owner, an owner of another kind or group, and one that is gone have no word", async () => {
  const { rig, owners } = start({});
  for (const owner of [
    undefined,
    { apiVersion: "batch/v1", kind: "Job", name: "j" },
    { apiVersion: "example.com/v1", kind: "ReplicaSet", name: "r" },
    { apiVersion: "apps/v1", kind: "toString", name: "r" },
  ])
    assert.deepEqual(owners.wordOf(podOf(owner)), { known: true, word: undefined });
  assert.equal(rig.asked.length, 0);
  owners.wordOf(podOf(replicaSet));
  await settle();
  assert.deepEqual(owners.wordOf(podOf(replicaSet)), { known: true, word: undefined });
});

test("owners that no pod has any more are forgotten", async () => {
  const { rig, owners } = start({ "replicasets/app-1": {} });
  owners.wordOf(podOf(replicaSet));
  await settle();
  owners.tidy();
  owners.tidy();
  assert.deepEqual(owners.wordOf(podOf(replicaSet)), { known: false });
  await settle();
  assert.equal(rig.asked.length, 2);
});
