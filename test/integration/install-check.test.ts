import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, it } from "node:test";
import { fileURLToPath } from "node:url";
import type { ToolResult } from "../cluster/tools.ts";
import type { Rendered } from "./rendered.ts";
import { NAMESPACE, type System, startSystem, until } from "./system.ts";

// `helm upgrade` with the check after it, on a real API server. Helm waits for the Job. The command of its pod runs
// here, with the token of its account.

const CHART = fileURLToPath(new URL("../../manifests/chart", import.meta.url));
const JOB = "switchback-install-check";
const PODS = `/api/v1/namespaces/${NAMESPACE}/pods`;

let system: System;
before(async () => {
  system = await startSystem();
});
after(() => system?.stop());

/** Upgrades, and does meanwhile what a node would do with the Job's pod. @returns Helm's result, and the pod's. */
async function upgrade(timeoutSeconds: number) {
  const sets = ["installCheck.enabled=true", `installCheck.timeoutSeconds=${timeoutSeconds}`];
  const flags = ["--namespace", NAMESPACE, "--reset-then-reuse-values", ...sets.flatMap((set) => ["--set", set])];
  const helm = system.cluster.helm("upgrade", "switchback", CHART, ...flags);
  const [check] = await Promise.all([runPod(), helm]);
  return { check, helm: await helm };
}

async function runPod(): Promise<ToolResult> {
  let pod: Rendered;
  await until("the pod of the check", async () => {
    const list = ["-n", NAMESPACE, "get", "pods", "-l", `job-name=${JOB}`, "--field-selector=status.phase=Pending"];
    [pod] = (await system.json<{ items: Rendered[] }>(...list)).items;
    return pod !== undefined;
  });
  const { name } = pod.metadata;
  const [, program, ...args] = pod.spec.containers[0].command;
  assert.equal(program, join("cli", "main.js"));
  const token = await system.cluster.tokenFor(`${NAMESPACE}/${pod.spec.serviceAccountName}`);
  const check = await system.cli(args, { kubeconfig: await system.cluster.kubeconfigFor({ token }) });
  const body = { status: { phase: check.code === 0 ? "Succeeded" : "Failed" } };
  const contentType = "application/merge-patch+json";
  await system.cluster.call({ method: "PATCH", path: `${PODS}/${name}/status`, contentType, body });
  return check;
}

const leftovers = async () =>
  (await system.kubectl("get", "jobs,serviceaccounts,roles,rolebindings", "-A", "-o", "name")).match(
    /.*install-check.*/g,
  );

it("Helm waits until the API server calls the webhook; nothing of the check is left", async () => {
  const { check, helm } = await upgrade(60);
  assert.deepEqual([check.code, helm.code], [0, 0], check.stderr + helm.stderr);
  assert.match(check.stdout, /the API server calls the webhook/);
  assert.equal(await leftovers(), null);
});

it("Helm fails if no webhook answers, and keeps the Job for its log", async () => {
  for (const webhook of [...system.webhooks]) await system.end(webhook);
  const { check, helm } = await upgrade(1);
  assert.equal(check.code, 1);
  assert.match(check.stderr, /the webhook has not answered for 1 s/);
  assert.notEqual(helm.code, 0, helm.stdout);
  assert.match(helm.stderr, /post-upgrade hooks? failed/);
  assert.deepEqual(await leftovers(), [`job.batch/${JOB}`]);
});
