import assert from "node:assert/strict";
import { test } from "node:test";
import { isReplicaSet, ownerOf, replicaSetOwner } from "./owners.ts";
import { controllerOf, type PodFacts, podFacts } from "./pods.ts";

function pod(apiVersion?: string, kind?: string, name?: string, templateHash?: string): PodFacts {
  const owner = { apiVersion: apiVersion ?? "", kind: kind ?? "", name: name ?? "", uid: "u", controller: true };
  return podFacts({
    metadata: {
      namespace: "shop",
      name: "p",
      labels: templateHash === undefined ? {} : { "pod-template-hash": templateHash },
      ownerReferences: kind === undefined ? [] : [owner],
    },
  });
}

const TABLE = [
  ["no owner", pod(), "shop/Pod/p", "not-restartable"],
  ["a Job", pod("batch/v1", "Job", "j"), "shop/Job/j", "not-restartable"],
  ["a StatefulSet", pod("apps/v1", "StatefulSet", "db"), "shop/StatefulSet/db", undefined],
  ["a DaemonSet", pod("apps/v1", "DaemonSet", "log"), "shop/DaemonSet/log", undefined],
  [
    "another group's StatefulSet",
    pod("apps.kruise.io/v1", "StatefulSet", "db"),
    "shop/StatefulSet/db",
    "not-restartable",
  ],
  [
    "a ReplicaSet of a Deployment",
    pod("apps/v1", "ReplicaSet", "my-web-7d9", "7d9"),
    "shop/Deployment/my-web",
    undefined,
  ],
  [
    "one without the label of Deployments",
    pod("apps/v1", "ReplicaSet", "web-7d9"),
    "shop/ReplicaSet/web-7d9",
    "not-restartable",
  ],
] as const;

for (const [what, of, key, code] of TABLE) {
  test(`a pod of ${what} is ${key}, ${code ?? "which can be restarted"}`, () => {
    const owner = ownerOf(of);
    assert.deepEqual([owner.key, owner.unrestartable?.code], [key, code]);
  });
}

test("an owner is named in full, with the reason why it cannot be restarted", () => {
  assert.deepEqual(ownerOf(pod("apps/v1", "StatefulSet", "db")), {
    namespace: "shop",
    kind: "StatefulSet",
    name: "db",
    key: "shop/StatefulSet/db",
    unrestartable: undefined,
  });
  assert.deepEqual(ownerOf(pod("example.com/v1", "Farm", "f")), {
    namespace: "shop",
    kind: "Farm",
    name: "f",
    key: "shop/Farm/f",
    unrestartable: { code: "not-restartable", text: "owned by a Farm, which Switchback cannot restart" },
  });
});

const OWNER = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "web-1", uid: "u" };
const { uid: _, ...REFERENCE } = OWNER;

test("of several owners, only the controller counts", () => {
  const others = [OWNER, { ...OWNER, name: "other", controller: false }];
  assert.deepEqual(controllerOf({ ownerReferences: [...others, { ...OWNER, controller: true }] }), REFERENCE);
  assert.deepEqual(
    [controllerOf({ ownerReferences: others }), controllerOf({}), controllerOf()],
    Array(3).fill(undefined),
  );
});

test("a ReplicaSet's owner counts only if it is of the group apps", () => {
  const ownedBy = (change: object) => ({ ownerReferences: [{ ...OWNER, controller: true, ...change }] });
  assert.deepEqual(replicaSetOwner(ownedBy({ kind: "Deployment", name: "web" })), { kind: "Deployment", name: "web" });
  assert.equal(replicaSetOwner(ownedBy({ apiVersion: "argoproj.io/v1alpha1", kind: "Rollout" })), "none");
  assert.deepEqual([replicaSetOwner({}), replicaSetOwner(undefined)], ["none", "none"]);
});

test("only a ReplicaSet of the group apps has an owner to look up", () => {
  const found = [REFERENCE, { ...REFERENCE, kind: "Deployment" }, { ...REFERENCE, apiVersion: "x/apps/v1" }, undefined];
  assert.deepEqual(found.map(isReplicaSet), [true, false, false, false]);
});

test("the Deployment is inferred only if the name ends with the whole hash", () => {
  const infer = (name: string, hash: string) => ownerOf(pod("apps/v1", "ReplicaSet", name, hash)).key;
  assert.equal(infer("a-7d9-7d9", "7d9"), "shop/Deployment/a-7d9");
  assert.equal(infer("web7d9", "7d9"), "shop/ReplicaSet/web7d9");
  assert.equal(infer("web-7d9-x", "7d9"), "shop/ReplicaSet/web-7d9-x");
});

test("a ReplicaSet is looked up only if its name is valid", () => {
  const longest = "a".repeat(253);
  for (const [name, valid] of [
    ["web-1", true],
    ["a", true],
    ["a.b-1.c", true],
    [longest, true],
    [`${longest}a`, false],
    ["", false],
    ["-a", false],
    ["a-", false],
    ["a-.b", false],
    ["a..b", false],
    ["A", false],
    ["a/b", false],
    ["a\n", false],
  ] as const) {
    assert.equal(isReplicaSet({ ...REFERENCE, name }), valid, name);
  }
});

test("the owner of a ReplicaSet that was read counts, and no name", () => {
  const replicaSet = pod("apps/v1", "ReplicaSet", "other-1", "1");
  assert.equal(ownerOf(replicaSet, { kind: "Deployment", name: "web" }).key, "shop/Deployment/web");
  assert.equal(ownerOf(replicaSet, "none").unrestartable?.code, "not-restartable");
});

test("an owner with an invalid name is reported as such, whatever its kind", () => {
  for (const kind of ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"]) {
    assert.deepEqual(ownerOf(pod("apps/v1", kind, "a/b")), {
      namespace: "shop",
      kind,
      name: "a/b",
      key: `shop/${kind}/a/b`,
      unrestartable: { code: "owner-name-invalid", text: `the name of its owner is not a valid name of a ${kind}` },
    });
  }
  assert.equal(ownerOf(pod("apps/v1", "ControllerRevision", "a/b")).unrestartable?.code, "not-restartable");
});
