import assert from "node:assert/strict";
import { test } from "node:test";
import { partsOf, workloadKey } from "./workload-keys.ts";
import { isWorkloadKind, replicaSetPath, WORKLOAD_KINDS, workloadPath } from "./workload-kinds.ts";

const KEY = "shop/Deployment/web";
const WEB = { namespace: "shop", kind: "Deployment", name: "web" };

test("a key and its parts; a missing part is empty", () => {
  assert.deepEqual(partsOf(KEY), WEB);
  assert.deepEqual(partsOf(""), { namespace: "", kind: "", name: "" });
  assert.equal(workloadKey(WEB), KEY);
});

test("the API path of a workload, of all workloads of a kind, and of a ReplicaSet", () => {
  const kinds = { Deployment: "deployments", StatefulSet: "statefulsets", DaemonSet: "daemonsets" };
  assert.deepEqual(WORKLOAD_KINDS, Object.keys(kinds));
  for (const kind of WORKLOAD_KINDS) {
    const path = `/apis/apps/v1/namespaces/shop/${kinds[kind]}`;
    assert.deepEqual([workloadPath("shop", kind), workloadPath("shop", kind, "web")], [path, `${path}/web`]);
  }
  const path = "/apis/apps/v1/namespaces/shop/replicasets";
  assert.deepEqual([replicaSetPath("shop"), replicaSetPath("shop", "web-1")], [path, `${path}/web-1`]);
});

test("a kind other than the three cannot be restarted, whatever its name", () => {
  const kinds = ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "deployment", "toString", ""];
  assert.deepEqual(kinds.map(isWorkloadKind), [true, true, true, false, false, false, false]);
});
