import assert from "node:assert/strict";
import { test } from "node:test";
import { describeManaged } from "#hostmap/managed-aliases.ts";
import { podFacts } from "#lib/workloads/pods.ts";
import { createProjection } from "./node-pod.ts";

const MANAGED = [{ ip: "198.51.100.9", hostnames: ["a.example.com", "b.example.com"] }];
const USERS = { ip: "10.0.0.1", hostnames: ["db"] };

function raw(name: string, aliases = MANAGED) {
  const owner = { apiVersion: "apps/v1", kind: "StatefulSet", name: "db", uid: "o", controller: true };
  return {
    metadata: {
      namespace: "shop",
      name,
      uid: `uid of ${name}`,
      resourceVersion: "7",
      ownerReferences: [owner],
      labels: { "switchback.dev/inject": "enabled", app: "db" },
      annotations: {
        "switchback.dev/hosts": "*.example.com",
        "switchback.dev/on-change": "live",
        "switchback.dev/owned": describeManaged(aliases),
        "kubernetes.io/config.mirror": "x",
      },
    },
    spec: { nodeName: "node-1", hostAliases: [USERS, ...structuredClone(aliases)] },
    status: { phase: "Running" },
  };
}

test("a pod's facts are kept, and only the aliases that the webhook added", () => {
  const facts = podFacts(raw("db-0"));
  assert.deepEqual(createProjection()(raw("db-0")), { ...facts, managedAliases: MANAGED, ended: false });
});

test("a pod without metadata, spec and status is projected too", () => {
  assert.deepEqual(createProjection()({}), { ...podFacts({}), managedAliases: [], ended: false });
});

test("a pod has ended in the phases Succeeded and Failed", () => {
  const ended = ["Pending", "Running", "Succeeded", "Failed", "Unknown"].filter(
    (phase) => createProjection()({ ...raw("a"), status: { phase } }).ended,
  );
  assert.deepEqual(ended, ["Succeeded", "Failed"]);
});

test("pods with equal aliases share one list in memory, and others do not", () => {
  const project = createProjection();
  const other = [{ ip: "198.51.100.9", hostnames: ["c.example.com"] }];
  const [first, second, third, fourth] = [raw("a"), raw("b", other), raw("c"), raw("d", other)].map(
    (pod) => project(pod).managedAliases,
  );
  assert.equal(third, first);
  assert.equal(fourth, second);
  assert.deepEqual([first, second], [MANAGED, other]);
  assert.equal(project({}).managedAliases, project({}).managedAliases);
});
