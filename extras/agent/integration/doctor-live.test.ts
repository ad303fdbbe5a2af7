import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import type { ReportDocument } from "#doctor/report.ts";
import { Following } from "#test/integration/following.ts";
import { Kubelet } from "#test/integration/kubelet.ts";
import { namespaceYaml, workload } from "#test/integration/objects.ts";
import { type System, startSystem, until } from "#test/integration/system.ts";
import { AGENT_LEASE_LABELS, agentLeaseName } from "../agent-lease-format.ts";

// A Deployment should follow live by its own annotation. The doctor learns this from the leader. The agent of its
// node is only a Lease.

const NS = "lively";
const AGENTS = "switchback-agent";
const NODE = "node-1";
let system: System;
let kubelet: Kubelet;
let follow: Following;

before(async () => {
  system = await startSystem({
    before: namespaceYaml(NS, "enabled") + namespaceYaml(AGENTS),
    // The leader reads workloads only in this namespace. It restarts none, because no webhook is known to be ready.
    values: { config: { restart: { namespaces: [NS] } } },
  });
  await system.showController();
  follow = new Following(system, NS);
  kubelet = new Kubelet(system, NS);
});
after(async () => {
  await kubelet?.stop();
  await system?.stop();
});

/** The doctor's findings about pods, without Switchback's own pods. */
async function aboutPods(): Promise<string[]> {
  const { stdout } = await system.cli(["doctor", "-o", "json"]);
  const { findings } = JSON.parse(stdout) as ReportDocument;
  return findings.filter(({ check }) => check === "pods").map(({ status, code }) => `${status} ${code}`);
}

async function beat(revision: string): Promise<void> {
  const annotations = { "switchback.dev/revision": revision };
  const lease = {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: { name: agentLeaseName(NODE), namespace: AGENTS, labels: AGENT_LEASE_LABELS, annotations },
    spec: { renewTime: new Date().toISOString().replace("Z", "000Z") },
  };
  await system.apply(JSON.stringify(lease));
}

it("the pod of a Deployment with `live` is in step if its node's agent is, and stale if that is behind", async () => {
  const deployment = JSON.parse(workload("Deployment", "web", NS).replace("---", ""));
  deployment.metadata.annotations = { "switchback.dev/on-change": "live" };
  await system.apply(JSON.stringify(deployment));
  await follow.rolledOut("Deployment", "web");
  await until("the leader to know how it follows", async () => (await follow.statusOf("web"))?.mode === "live");
  const before = await system.map();
  await beat(before.revision);
  await follow.addName("new.example.com");
  assert.deepEqual(await aboutPods(), ["warning pod-stale"]);
  const { revision } = await system.map();
  assert.notEqual(revision, before.revision);
  await beat(revision);
  assert.deepEqual(await aboutPods(), ["ok pods-in-step"]);
  assert.equal(await follow.changes("web"), 0);
});
