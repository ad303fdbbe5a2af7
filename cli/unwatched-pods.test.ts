import assert from "node:assert/strict";
import { test } from "node:test";
import type { WorkloadStatus } from "#controller/rollout/report.ts";
import { fullStatus, WORKLOAD } from "#test/fakes/full-status.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { withUnwatched } from "./unwatched-pods.ts";

const INJECTED = { "switchback.dev/injected": "true" };

/** The namespace `shop` with this label, and pods of Deployments. */
function cluster(
  inject: string | undefined,
  ...pods: (readonly [of: string, labels?: object, annotations?: object])[]
) {
  const kube = new MemoryKube();
  kube.put("/api/v1/namespaces/shop", { metadata: { labels: inject ? { "switchback.dev/inject": inject } : {} } });
  for (const [index, [of, labels = {}, annotations = {}]] of pods.entries()) {
    const owner = { apiVersion: "apps/v1", kind: "ReplicaSet", name: `${of}-1`, uid: "rs", controller: true };
    const metadata = { labels: { "pod-template-hash": "1", ...labels }, annotations, ownerReferences: [owner] };
    kube.put(`/api/v1/namespaces/shop/pods/${of}-${index}`, { metadata });
  }
  return kube;
}

async function listed(kube: MemoryKube, ...known: Partial<WorkloadStatus>[]) {
  const workloads = known.map((each) => ({ ...WORKLOAD, namespace: "shop", ...each }));
  const { running } = await withUnwatched(kube.client, fullStatus({}, { workloads }), "shop");
  return running?.workloads.map(({ name, pods, stale, notInjected, code }) => [name, pods, stale, notInjected, code]);
}

test("pods that ran before their namespace got its label are stale, with the caller's rights", async () => {
  const kube = cluster(
    "enabled",
    ["web"],
    ["web"],
    ["db"],
    ["new", INJECTED],
    ["out", { "switchback.dev/inject": "disabled" }],
  );
  const inStep = { standing: "in-step", code: "in-step", pods: 1, stale: 0, notInjected: 0 } as const;
  assert.deepEqual(await listed(kube, { ...inStep, name: "new" }, { ...inStep, name: "db" }), [
    ["new", 1, 0, 0, "in-step"],
    ["db", 2, 1, 1, "restart-not-permitted"],
    ["web", 2, 2, 2, "restart-not-permitted"],
  ]);
});

test("nothing is added where the controller watches all pods, without the label, or without rights", async () => {
  const known = { name: "web", pods: 1, stale: 1, notInjected: 1, code: "delayed" };
  const same = [["web", 1, 1, 1, "delayed"]];
  assert.deepEqual(await listed(cluster("enabled", ["web"]), known), same);
  for (const label of [undefined, "disabled", "unknown"])
    assert.deepEqual(await listed(cluster(label, ["other"]), known), same);
  for (const [path, status] of [
    ["/api/v1/namespaces/shop", 403],
    ["/api/v1/namespaces/shop", 404],
    ["/api/v1/namespaces/shop/pods", 403],
  ] as const) {
    const kube = cluster("enabled", ["other"]);
    kube.refuse(path, status);
    assert.deepEqual(await listed(kube, known), same);
  }
});
