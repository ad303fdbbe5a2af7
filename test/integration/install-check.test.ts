import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, it } from "node:test";
import { fileURLToPath } from "node:url";
import type { ToolResult } from "../cluster/tools.ts";
import { assertDenied, assertPasses, isDenied } from "./policy-calls.ts";
import type { Rendered } from "./rendered.ts";
import { NAMESPACE, type System, startSystem, until } from "./system.ts";

// `helm upgrade` with the check after it, on a real API server. Helm waits for the Job. The command of its pod runs
// here, with the token of its account.

const CHART = fileURLToPath(new URL("../../manifests/chart", import.meta.url));
const JOB = "switchback-install-check";
const PODS = `/api/v1/namespaces/${NAMESPACE}/pods`;
const DEFAULT_PODS = "/api/v1/namespaces/default/pods";

let system: System;
before(async () => {
  system = await startSystem();
});
after(() => system?.stop());

/** Upgrades, and does meanwhile what a node would do with the Job's pod. @returns Helm's result, and the pod's. */
async function upgrade(timeoutSeconds: number, meanwhile: (token: string) => Promise<void> = async () => {}) {
  const sets = ["installCheck.enabled=true", `installCheck.timeoutSeconds=${timeoutSeconds}`];
  const flags = ["--namespace", NAMESPACE, "--reset-then-reuse-values", ...sets.flatMap((set) => ["--set", set])];
  const helm = system.cluster.helm("upgrade", "switchback", CHART, ...flags);
  const [check] = await Promise.all([runPod(meanwhile), helm]);
  return { check, helm: await helm };
}

async function runPod(meanwhile: (token: string) => Promise<void>): Promise<ToolResult> {
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
  await meanwhile(token);
  const check = await system.cli(args, { kubeconfig: await system.cluster.kubeconfigFor({ token }) });
  const body = { status: { phase: check.code === 0 ? "Succeeded" : "Failed" } };
  const contentType = "application/merge-patch+json";
  await system.cluster.call({ method: "PATCH", path: `${PODS}/${name}/status`, contentType, body });
  return check;
}

it("Helm waits until a pod would get the names; the account can do no more, and is deleted afterwards", async () => {
  const create = async (token: string, path: string) => {
    const spec = { containers: [{ name: "a", image: "a" }] };
    const { status, body } = await system.cluster.call({ method: "POST", path, token, body: podOf(spec) });
    return { status, message: String((body as { message?: string }).message ?? "") };
  };
  const { check, helm } = await upgrade(60, async (token) => {
    await until("the policy to be in force", async () => isDenied(await create(token, DEFAULT_PODS)));
    assertDenied(await create(token, DEFAULT_PODS));
    assertPasses(await create(token, `${DEFAULT_PODS}?dryRun=All`));
    assert.equal((await create(token, `${PODS}?dryRun=All`)).status, 403);
  });
  assert.deepEqual([check.code, helm.code], [0, 0], check.stderr + helm.stderr);
  assert.match(check.stdout, /the webhook answers: the dry run of an opted-in pod in namespace default was injected/);
  const kinds = "jobs,serviceaccounts,roles,rolebindings,validatingadmissionpolicies";
  assert.doesNotMatch(await system.kubectl("get", kinds, "-A", "-o", "name"), /install-check/);
});

/** Each pod has another name, so that one that was created before the policy does not block the next. */
const podOf = (spec: object) =>
  JSON.stringify({ apiVersion: "v1", kind: "Pod", metadata: { generateName: "a-" }, spec });

it("Helm fails if no webhook answers, and keeps the Job for its log", async () => {
  for (const webhook of [...system.webhooks]) await system.end(webhook);
  const { check, helm } = await upgrade(1);
  assert.equal(check.code, 1);
  assert.match(check.stderr, /the webhook has not answered for 1 s/);
  assert.notEqual(helm.code, 0, helm.stdout);
  assert.match(helm.stderr, /post-upgrade hooks? failed/);
  const kinds = "jobs,serviceaccounts,roles,rolebindings,validatingadmissionpolicies";
  const left = await system.kubectl("get", kinds, "-A", "-o", "name");
  assert.deepEqual(left.match(/.*install-check.*/g), [`job.batch/${JOB}`]);
});
