import assert from "node:assert/strict";
import { test } from "node:test";
import { ownerOf } from "./owners.ts";
import { type PodFacts, podFacts } from "./pods.ts";

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

const UNREAD = () => undefined;
const OF_WEB = () => ({ kind: "Deployment", name: "web" });
const OF_NOBODY = () => "none" as const;

const TABLE = [
  ["no owner", pod(), UNREAD, "shop/Pod/p", "bare-pod"],
  ["a Job", pod("batch/v1", "Job", "j"), UNREAD, "shop/Job/j", "job"],
  ["a StatefulSet", pod("apps/v1", "StatefulSet", "db"), UNREAD, "shop/StatefulSet/db", undefined],
  ["a DaemonSet", pod("apps/v1", "DaemonSet", "log"), UNREAD, "shop/DaemonSet/log", undefined],
  [
    "another group's StatefulSet",
    pod("apps.kruise.io/v1", "StatefulSet", "db"),
    UNREAD,
    "shop/StatefulSet/db",
    "unknown-owner",
  ],
  ["a ReplicaSet that was read", pod("apps/v1", "ReplicaSet", "web-1"), OF_WEB, "shop/Deployment/web", undefined],
  [
    "a ReplicaSet of nobody",
    pod("apps/v1", "ReplicaSet", "web-1", "1"),
    OF_NOBODY,
    "shop/ReplicaSet/web-1",
    "unknown-owner",
  ],
  [
    "a ReplicaSet that cannot be read",
    pod("apps/v1", "ReplicaSet", "my-web-7d9", "7d9"),
    UNREAD,
    "shop/Deployment/my-web",
    undefined,
  ],
  [
    "one without the label of Deployments",
    pod("apps/v1", "ReplicaSet", "web-7d9"),
    UNREAD,
    "shop/ReplicaSet/web-7d9",
    "unknown-owner",
  ],
] as const;

for (const [what, of, parentOf, key, code] of TABLE) {
  test(`a pod of ${what} is ${key}, ${code ?? "which can be restarted"}`, () => {
    const owner = ownerOf(of, parentOf);
    assert.deepEqual([owner.key, owner.unrestartable?.code], [key, code]);
  });
}
