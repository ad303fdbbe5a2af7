import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { after, before, it } from "node:test";
import type { ReportDocument } from "#doctor/report.ts";
import { SWITCHBACK } from "../cluster/tools.ts";
import { ingress, namespaceYaml } from "./objects.ts";
import { type System, startSystem, until } from "./system.ts";

// `switchback doctor` against a real API server: what it may not read, what admission says to its pods, and what it
// leaves behind. No node runs here: test/e2e/75-doctor.test.ts has what its pod sees.

let system: System;
before(async () => {
  const target = { name: "web", upstream: { service: { namespace: "default", name: "web" } } };
  system = await startSystem({ values: { config: { targets: [target] } } });
  await system.kubectl("create", "service", "loadbalancer", "web", "--tcp=80");
  const status = JSON.stringify({ status: { loadBalancer: { ingress: [{ ip: "192.0.2.1" }] } } });
  await system.kubectl("patch", "service", "web", "--subresource=status", "--type=merge", "-p", status);
  const namespaces = namespaceYaml("shop", "enabled") + namespaceYaml("full") + namespaceYaml("strict");
  await system.apply(namespaces + ingress("a", ["a.example.com"]));
});
after(() => system?.stop());

/** Runs the doctor. `found` has the status and the code of each finding. */
async function examine(flags: readonly string[] = [], kubeconfig = system.cluster.adminKubeconfig) {
  const { code: exitCode, stdout, stderr } = await system.cli(["doctor", "-o", "json", ...flags], { kubeconfig });
  assert.ok(stdout.startsWith("{"), stderr);
  const report = JSON.parse(stdout) as ReportDocument;
  return { ...report, exitCode, found: report.findings.map(({ status, code }) => `${status} ${code}`) };
}

/** Waits until the doctor finds something. The API server follows within a second or two. */
async function untilFound(what: string, ...flags: string[]): Promise<void> {
  await until(what, async () => (await examine(flags)).found.includes(what));
}

const person = (name: string) => system.cluster.kubeconfigFor({ clientCert: system.cluster.ca.client(name, []) });
const podsIn = async (namespace: string) => (await system.kubectl("-n", namespace, "get", "pods", "-o", "name")).trim();

it("reports each missing permission, and nothing as ok or absent, for a user without permissions", async () => {
  const { findings, found, exitCode } = await examine([], await person("nobody"));
  assert.ok(
    findings.every(({ status }) => status === "unknown"),
    found.join(),
  );
  assert.equal(exitCode, 0, "unknown is not broken");
  const missing = findings.map(({ evidence }) => evidence).join("\n");
  for (const permission of [
    "list services in all namespaces",
    "list namespaces in all namespaces",
    "list deployments.apps in the namespace switchback-system",
    "get mutatingwebhookconfigurations.admissionregistration.k8s.io switchback-webhook in all namespaces",
    "create pods in the namespace default",
    "list nodes in all namespaces",
  ]) {
    assert.ok(missing.includes(`missing permission: ${permission}`), missing);
  }
});

it("a user with rights for one namespace gets an answer, and each kind that is not listed is said", async () => {
  const kubeconfig = await person("someone");
  const binding = ["create", "rolebinding", "someone", "--clusterrole=admin", "--user=someone"];
  await system.kubectl("-n", "default", ...binding);
  const { findings, found, headline } = await examine([], kubeconfig);
  assert.ok(!found.some((each) => each.startsWith("broken")), found.join());
  assert.equal(headline, "It is not known whether pods reach the cluster's names");
  assert.ok(findings.some(({ subject, code }) => subject === "public names" && code === "forbidden"));
});

it("if the namespace refuses its pods, the doctor says so, and answers with what it saw", async () => {
  await system.kubectl("-n", "full", "create", "quota", "none", "--hard=pods=0");
  await untilFound("unknown dry-run-refused", "--probe-namespace", "full");
  const { findings, found } = await examine(["--probe", "--probe-namespace", "full"]);
  assert.match(findings.find(({ code }) => code === "probe-failed")?.evidence ?? "", /exceeded quota: none/);
  assert.ok(found.includes("ok opted-in"), found.join());
  assert.equal(await podsIn("full"), "");
});

it("dry run and probe pod pass the restricted Pod Security Standard; Ctrl-C removes the pod", async () => {
  await system.kubectl("label", "namespace", "strict", "pod-security.kubernetes.io/enforce=restricted");
  const args = [SWITCHBACK, "doctor", "--probe", "--probe-namespace", "strict"];
  const child = spawn(process.execPath, args, { env: { KUBECONFIG: system.cluster.adminKubeconfig } });
  const [stdout, stderr] = [text(child.stdout), text(child.stderr)];
  await until("the probe pod", async () => (await podsIn("strict")) !== "");
  child.kill("SIGINT");
  const [code] = await once(child, "exit");
  assert.deepEqual([code, await stdout], [1, ""]);
  assert.match(await stderr, /probe: pod removed\nswitchback: SIGINT: the probe was stopped\n$/);
  assert.equal(await podsIn("strict"), "");
  const { found } = await examine(["--probe-namespace", "strict"]);
  assert.ok(found.includes("ok webhook-answers"), found.join());
});

it("the dry run tells what the API server does with a pod, and leaves none", async () => {
  const { found, exitCode } = await examine();
  assert.ok(found.includes("ok webhook-answers"), found.join());
  assert.equal(exitCode, 1, "no pod of ours is ready here");
  const [replica] = system.webhooks;
  assert.ok(replica);
  await system.end(replica);
  await untilFound("broken webhook-silent");
  const policy = [0, 1].map((index) => ({ op: "replace", path: `/webhooks/${index}/failurePolicy`, value: "Fail" }));
  const configuration = ["mutatingwebhookconfiguration", "switchback-webhook"];
  await system.kubectl("patch", ...configuration, "--type=json", "-p", JSON.stringify(policy));
  await untilFound("broken webhook-blocks");
  assert.equal(await podsIn("default"), "");
});
