import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Following } from "./following.ts";
import { Kubelet } from "./kubelet.ts";
import { namespaceYaml, type PodParts, podObject, workload } from "./objects.ts";
import { NAMESPACE, type System, startSystem } from "./system.ts";

// Workloads that the install cannot or may not restart. It reports them once, and users with the right restart them.

const NS = "by-hand";
const OTHER = "not-theirs";
let system: System;
let kubelet: Kubelet;
let here: Following;
let there: Following;

before(async () => {
  system = await startSystem({ before: namespaceYaml(NS, "enabled") + namespaceYaml(OTHER, "enabled") });
  here = new Following(system, NS);
  there = new Following(system, OTHER);
  await system.showWebhooks();
  await system.showController();
  kubelet = new Kubelet(system, NS, OTHER);
  await here.addName("first.example.com");
});
after(async () => {
  await kubelet?.stop();
  await system?.stop();
});

it("pods that no restart recreates are reported in the status", async () => {
  const kinds = { bare: "Pod", work: "Job", owner: "ConfigMap" };
  const template = { restartPolicy: "Never", containers: [{ name: "c", image: "example.com/c:1" }] };
  const job = { apiVersion: "batch/v1", kind: "Job", metadata: { name: "work", namespace: NS } };
  await system.kubectl("-n", NS, "create", "configmap", "owner");
  const uid = await system.kubectl("-n", NS, "get", "cm", "owner", "-o", "jsonpath={.metadata.uid}");
  const owner = { apiVersion: "v1", kind: "ConfigMap", name: "owner", uid };
  const owned = podObject(NS, "owned") as { metadata: PodParts };
  const objects = [
    podObject(NS, "bare"),
    { ...job, spec: { template: { spec: template } } },
    { ...owned, metadata: { ...owned.metadata, ownerReferences: [{ ...owner, controller: true }] } },
  ];
  await system.apply(objects.map((object) => `${JSON.stringify(object)}\n---\n`).join(""));
  for (const name of Object.keys(kinds)) await here.codeIs(name, "in-step");
  await here.addName("second.example.com");
  for (const name of Object.keys(kinds)) await here.codeIs(name, "not-restartable");
  for (const [name, kind] of Object.entries(kinds)) {
    const status = await here.statusOf(name);
    assert.deepEqual([status?.kind, status?.standing, status?.pods, status?.stale], [kind, "stuck", 1, 1]);
  }
  await system.kubectl("-n", NS, "delete", "pod/bare", "pod/owned", "job/work");
});

/** A kubeconfig of a user with a client certificate, who is bound to a Role of the chart or to none. */
async function somebody(name: string, role?: string): Promise<string> {
  if (role !== undefined)
    await system.kubectl("-n", NAMESPACE, "create", "rolebinding", name, "--clusterrole", role, "--user", name);
  return await system.cluster.kubeconfigFor({ clientCert: system.cluster.ca.client(name, []) });
}

describe("switchback restart", () => {
  const restart = (kubeconfig: string, what: string) => system.cli(["restart", what, "--yes"], { kubeconfig });

  before(async () => {
    for (const name of ["held", "web"]) await system.apply(workload("Deployment", name, NS));
    await system.apply(workload("Deployment", "web", OTHER));
    for (const name of ["held", "web"]) await here.rolledOut("Deployment", name);
    await there.rolledOut("Deployment", "web");
    await system.kubectl("-n", NS, "patch", "deployment", "held", "-p", '{"spec":{"paused":true}}');
    await here.addName("fifth.example.com");
    for (const name of ["held", "web"]) await here.codeIs(name, "restart-not-permitted");
    await there.codeIs("web", "restart-not-permitted");
  });

  it("refuses a user who may not query the controller", async () => {
    const { code, stdout, stderr } = await restart(await somebody("stranger"), NS);
    assert.deepEqual([code, stdout], [1, ""]);
    assert.match(stderr, /^switchback: .*forbidden: User "stranger" cannot get resource "secrets"/);
  });

  it("refuses each workload that the operator may not patch, and changes nothing", async () => {
    const { code, stderr } = await restart(await somebody("operator", "switchback-reader"), NS);
    assert.equal(code, 1);
    const needs = "was not restarted: you need permission to get and patch Deployments in by-hand";
    assert.match(stderr, new RegExp(`^by-hand/Deployment/held ${needs}.*\nby-hand/Deployment/web ${needs}.*\n$`));
    assert.match(
      stderr,
      /User "operator" cannot get resource "deployments" in API group "apps" in the namespace "by-hand"/,
    );
    assert.equal(await here.changes("web"), 0);
  });

  it("restarts only the workloads that an operator may patch in one namespace, except paused ones", async () => {
    const owner = await somebody("owner", "switchback-reader");
    const rights = ["--verb", "get,patch", "--resource", "deployments.apps"];
    await system.kubectl("-n", NS, "create", "role", "restarter", ...rights);
    await system.kubectl("-n", NS, "create", "rolebinding", "owner", "--role", "restarter", "--user", "owner");
    const { code, stdout, stderr } = await restart(owner, NS);
    assert.equal(code, 1, "a workload is paused");
    assert.equal(stderr, "by-hand/Deployment/held was not restarted: spec.paused: its rollout is paused\n");
    assert.match(stdout, /^by-hand\/Deployment\/web is restarted$/m);
    await here.codeIs("web", "in-step");
    // The one change of `held` is its pause.
    assert.deepEqual([await here.changes("web"), await here.changes("held")], [1, 1]);
    const again = await restart(owner, `${NS}/web`);
    assert.deepEqual([again.code, again.stdout], [0, "nothing to do: all pods have the current names\n"]);
    const elsewhere = await restart(owner, OTHER);
    assert.equal(elsewhere.code, 1);
    assert.match(elsewhere.stderr, /^not-theirs\/Deployment\/web was not restarted: you need permission/);
    assert.equal(await there.changes("web"), 0);
  });

  it("restarts once if it is called twice at the same time", async () => {
    kubelet.startMs = 3_000;
    await here.addName("sixth.example.com");
    await here.codeIs("web", "restart-not-permitted");
    const admin = system.cluster.adminKubeconfig;
    const both = await Promise.all([restart(admin, `${NS}/web`), restart(admin, `${NS}/web`)]);
    for (const { code, stderr } of both) assert.deepEqual([code, stderr], [0, ""]);
    await here.codeIs("web", "in-step");
    assert.equal(await here.changes("web"), 2);
  });

  it("restarts the pods that are older than the label of their namespace", async () => {
    const OLDER = "older";
    await system.apply(namespaceYaml(OLDER));
    const older = new Following(system, OLDER);
    const hands = new Kubelet(system, OLDER);
    try {
      await system.apply(workload("Deployment", "web", OLDER));
      await older.rolledOut("Deployment", "web");
      await system.kubectl("label", "namespace", OLDER, "switchback.dev/inject=enabled");
      const { code, stdout, stderr } = await system.cli(["restart", OLDER, "--yes"]);
      assert.deepEqual([code, stderr], [0, ""], stdout);
      assert.match(stdout, /^older\/Deployment\/web: 1 of 1 pods stale/);
      assert.ok(await older.haveName("web", "first.example.com"));
      await older.codeIs("web", "in-step");
    } finally {
      await hands.stop();
    }
  });
});
