import assert from "node:assert/strict";
import { test } from "node:test";
import type { WorkloadStatus } from "#controller/rollout/report.ts";
import { parseWorkload, selectWorkloads } from "./workload-argument.ts";

for (const [text, expected] of [
  ["shop", { namespace: "shop" }],
  ["shop/web", { namespace: "shop", name: "web" }],
  ["shop/web.v2", { namespace: "shop", name: "web.v2" }],
  ["shop/deployment/web", { namespace: "shop", kind: "Deployment", name: "web" }],
  ["shop/Deployment/web", { namespace: "shop", kind: "Deployment", name: "web" }],
] as const) {
  test(`parses ${text}`, () =>
    assert.deepEqual(parseWorkload(text), { kind: undefined, name: undefined, ...expected }));
}

const workload = (kind: string, name: string, stale = 1, namespace = "shop") =>
  ({ namespace, kind, name, stale, pods: 2 }) as WorkloadStatus;
const WEB = workload("Deployment", "web");
const DB = workload("StatefulSet", "db");
const BOTH = [workload("Deployment", "both"), workload("DaemonSet", "both")] as const;
const ALL = [WEB, DB, ...BOTH, workload("Deployment", "current", 0), workload("Pod", "bare")];
const select = (text: string, all: readonly WorkloadStatus[] = ALL) => selectWorkloads(parseWorkload(text), all);

test("a namespace selects its stale workloads that can be restarted", () => {
  assert.deepEqual(select("shop", [...ALL, workload("Deployment", "web", 1, "other")]), [WEB, DB, ...BOTH]);
});

for (const kind of ["deployment", "Deployment", "deployments", "deploy", "DEPLOY"]) {
  test(`${kind} means a Deployment, and no other kind`, () => {
    assert.deepEqual(select(`shop/${kind}/web`), [WEB]);
    assert.deepEqual(select(`shop/${kind}/both`), [BOTH[0]]);
    assert.throws(() => select(`shop/${kind}/db`), /no opted-in pods found/);
  });
}

test("accepts kubectl's short names sts and ds", () => {
  assert.deepEqual([select("shop/sts/db"), select("shop/ds/both")], [[DB], [BOTH[1]]]);
});

test("a workload with the current names needs no restart", () => {
  assert.deepEqual(select("shop/current"), []);
});

for (const [text, expected] of [
  ["shop/none", "shop/none: no opted-in pods found; `switchback status` lists the workloads that have some"],
  ["shop/bare", "shop/bare is a Pod: delete its pods, or recreate it"],
  ["shop/both", "2 workloads have the name shop/both: use shop/deployment/both or shop/daemonset/both"],
] as const) {
  test(`${text} is refused, with what to do`, () => {
    assert.throws(() => select(text), { code: "input-invalid", message: expected });
  });
}
