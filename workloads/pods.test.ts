import assert from "node:assert/strict";
import { test } from "node:test";
import { hasEnded, hostAliasesOf, NOT_ENDED, podFacts } from "./pods.ts";

test("a pod has ended once it succeeded or failed, and the API server can select the others", () => {
  const ended = ["Succeeded", "Failed", "Running", "Pending", "Unknown", ""].map((phase) =>
    hasEnded({ status: { phase } }),
  );
  assert.deepEqual(ended, [true, true, false, false, false, false]);
  assert.deepEqual([hasEnded({}), hasEnded({ status: {} })], [false, false]);
  assert.equal(NOT_ENDED, "status.phase!=Succeeded,status.phase!=Failed");
});

test("hostAliases as the API server may send them: none, null, and an entry without hostnames", () => {
  assert.deepEqual(
    [hostAliasesOf({}), hostAliasesOf({ spec: {} }), hostAliasesOf({ spec: { hostAliases: null } })],
    [[], [], []],
  );
  const hostAliases = [
    { ip: "192.0.2.1", hostnames: ["a", "b"] },
    { ip: "192.0.2.2" },
    { ip: "192.0.2.3", hostnames: null },
  ];
  assert.deepEqual(hostAliasesOf({ spec: { hostAliases } }), [
    { ip: "192.0.2.1", hostnames: ["a", "b"] },
    { ip: "192.0.2.2", hostnames: [] },
    { ip: "192.0.2.3", hostnames: [] },
  ]);
});

test("facts of a pod: its controller, its labels and annotations that count", () => {
  const owner = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "web-1", uid: "u" };
  const metadata = {
    namespace: "shop",
    name: "web-1-a",
    uid: "uid",
    deletionTimestamp: "2026-01-01T00:00:00Z",
    ownerReferences: [
      { ...owner, name: "other", controller: false },
      { ...owner, controller: true },
    ],
    labels: { "pod-template-hash": "1", "switchback.dev/inject": "enabled", app: "web" },
    annotations: {
      "kubernetes.io/config.mirror": "",
      "switchback.dev/hosts": "a",
      "switchback.dev/revision": "r",
      "switchback.dev/on-change": "live",
      "switchback.dev/restartedAt": "t",
    },
  };
  assert.deepEqual(podFacts({ metadata }), {
    namespace: "shop",
    name: "web-1-a",
    uid: "uid",
    owner: { apiVersion: "apps/v1", kind: "ReplicaSet", name: "web-1" },
    templateHash: "1",
    inject: "enabled",
    mirror: true,
    hosts: "a",
    revision: "r",
    onChange: "live",
    restartedAt: "t",
    terminating: true,
  });
  const { owner: none, mirror, terminating, namespace, name, uid } = podFacts({});
  assert.deepEqual([none, mirror, terminating], [undefined, false, false]);
  assert.deepEqual([namespace, name, uid], ["", "", ""]);
});
