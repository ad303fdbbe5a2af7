import assert from "node:assert/strict";
import { test } from "node:test";
import { describeManaged } from "#hostmap/managed-aliases.ts";
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

test("only the facts that the agent needs are kept, and only the aliases that the webhook added", () => {
  const { owner, ...pod } = createProjection()(raw("db-0"));
  assert.deepEqual(pod, {
    namespace: "shop",
    name: "db-0",
    uid: "uid of db-0",
    inject: "enabled",
    mirror: true,
    hosts: "*.example.com",
    onChange: "live",
    managedAliases: MANAGED,
    ended: false,
  });
  assert.deepEqual([owner?.kind, owner?.name], ["StatefulSet", "db"]);
});

test("a pod without metadata, spec and status is projected too", () => {
  const nothing = { namespace: "", name: "", uid: "", owner: undefined, inject: undefined, mirror: false };
  const rest = { hosts: undefined, onChange: undefined, managedAliases: [], ended: false };
  assert.deepEqual(createProjection()({}), { ...nothing, ...rest });
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

test("a pod that resolves through pod DNS is recognized by its revision", () => {
  const annotated = (revision: string) => {
    const pod = raw("a");
    return { ...pod, metadata: { ...pod.metadata, annotations: { "switchback.dev/revision": revision } } };
  };
  assert.equal(createProjection()(annotated("dns")).byDns, true);
  assert.equal(createProjection()(annotated("0123456789ab")).byDns, undefined);
});
