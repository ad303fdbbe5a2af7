import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { parseAllDocuments } from "yaml";
import type { ReportDocument } from "#doctor/report.ts";
import { ingress, namespaceYaml } from "./objects.ts";
import type { Rendered } from "./rendered.ts";
import { AGENTS, NAMESPACE, type System, startSystem } from "./system.ts";

// `helm test` on a real API server, without a node that would run its pod. The account and its rights are created as
// Helm does it, and the pod's command runs here.

let system: System;
before(async () => {
  const values = { test: { probeNamespace: "default" }, agent: { enabled: true } };
  system = await startSystem({ values });
  await system.apply(namespaceYaml("shop", "enabled") + ingress("a", ["a.example.com"]));
  await system.ready(["a.example.com"]);
});
after(() => system?.stop());

/** The findings of the test's pod, with only the rights of these objects. */
async function found(objects: Rendered[]): Promise<string[]> {
  const rights = objects.filter(({ kind }) => kind !== "Pod");
  await system.apply(rights.map((object) => JSON.stringify(object)).join("\n---\n"));
  const { spec } = objects.find(({ kind }) => kind === "Pod");
  const [, program, ...args] = spec.containers[0].command;
  assert.equal(program, "cli/main.js");
  assert.deepEqual(args, ["doctor", "--namespace", NAMESPACE, "--probe", "--probe-namespace", "default"]);
  const token = await system.cluster.tokenFor(`${NAMESPACE}/${spec.serviceAccountName}`);
  const kubeconfig = await system.cluster.kubeconfigFor({ token });
  // No node runs a probe pod here; its dry run needs the same rights.
  const report = await system.cli([...args.filter((arg: string) => arg !== "--probe"), "-o", "json"], { kubeconfig });
  assert.ok(report.stdout.startsWith("{"), report.stderr);
  const { findings } = JSON.parse(report.stdout) as ReportDocument;
  return findings.map(({ status, code, evidence }) => `${status} ${code} ${evidence}`);
}

it("the doctor may read all that it asks for, and sees the webhook answer", async () => {
  const { stdout } = await system.cluster.tool("helm", ["get", "hooks", "switchback", "-n", NAMESPACE], {});
  const hooks = parseAllDocuments(stdout).map((document) => document.toJS() as Rendered);
  const objects = hooks.filter((object) => object?.metadata.annotations["helm.sh/hook"] === "test");
  const namespaces = objects.filter(({ kind }) => kind === "RoleBinding").map(({ metadata }) => metadata.namespace);
  assert.deepEqual(namespaces.sort(), ["default", AGENTS, NAMESPACE]);
  const withoutProbe = objects.filter(({ metadata }) => metadata.name !== "switchback-test-probe");
  const missing = (await found(withoutProbe)).filter((line) => line.includes("right-missing"));
  assert.deepEqual(
    missing.map((line) => /missing permission: ([^;]*)/.exec(line)?.[1]),
    ["create pods in the namespace default"],
  );
  const all = await found(objects);
  assert.deepEqual(
    all.filter((line) => line.includes("right-missing")),
    [],
  );
  assert.ok(
    all.some((line) => line.startsWith("ok webhook-answers")),
    all.join("\n"),
  );
});

it("the restricted Pod Security level admits the pod", async () => {
  const { stdout } = await system.cluster.tool("helm", ["get", "hooks", "switchback", "-n", NAMESPACE], {});
  const hooks = parseAllDocuments(stdout).map((document) => document.toJS() as Rendered);
  const { spec } = hooks.find((object) => object?.kind === "Pod");
  await system.kubectl("create", "namespace", "restricted");
  await system.kubectl("label", "namespace", "restricted", "pod-security.kubernetes.io/enforce=restricted");
  const pod = { apiVersion: "v1", kind: "Pod", metadata: { namespace: "restricted", name: "test" }, spec };
  const { code, stderr } = await system.cluster.tool("kubectl", ["create", "--dry-run=server", "-f", "-"], {
    input: JSON.stringify({ ...pod, spec: { ...spec, serviceAccountName: "default" } }),
  });
  assert.equal(code, 0, stderr);
});
