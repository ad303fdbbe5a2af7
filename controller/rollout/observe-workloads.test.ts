import assert from "node:assert/strict";
import { test } from "node:test";
import type { AgentState } from "../../snapshot/agent-lease-reader.ts";
import { type PodFacts, podFacts } from "../../workloads/pods.ts";
import { type ClusterView, observeWorkloads } from "./observe-workloads.ts";

function pod(name: string, annotations: Record<string, string> = {}, labels: Record<string, string> = {}): PodFacts {
  const owner = { apiVersion: "apps/v1", kind: "StatefulSet", name: "web", uid: "u", controller: true };
  return podFacts({ metadata: { namespace: "shop", name, uid: name, labels, annotations, ownerReferences: [owner] } });
}

function view(pods: readonly PodFacts[], parts: Partial<ClusterView> = {}): ClusterView {
  return {
    pods,
    namespaces: new Map([["shop", { inject: "enabled", onChange: undefined }]]),
    excludedNamespaces: new Set(["kube-system"]),
    choose: (hosts) => ({ revision: hosts === undefined ? "new" : `new-${hosts}`, total: 1, cap: 500 }),
    mapRevision: "map-2",
    fallback: "restart",
    isListed: () => true,
    parentOf: () => undefined,
    stateOf: () => "unknown",
    agentOf: () => undefined,
    unfinished: [],
    ...parts,
  };
}

const REVISION = "switchback.dev/revision";

test("pods are distinguished by revision: current, stale, not injected, with another selection of names", () => {
  const hosts = { "switchback.dev/hosts": "a" };
  const [group, ...others] = observeWorkloads(
    view([
      pod("current", { [REVISION]: "new" }),
      pod("stale", { [REVISION]: "old" }),
      pod("bare"),
      pod("chosen", { ...hosts, [REVISION]: "new-a" }),
      pod("out", {}, { "switchback.dev/inject": "disabled" }),
    ]),
  );
  assert.equal(others.length, 0);
  assert.deepEqual(
    group?.stale.map(({ name }) => name),
    ["stale", "bare"],
  );
  assert.deepEqual([group?.pods, group?.notInjected, group?.observed.to], [4, 1, "new+new-a"]);
});

test("a pod that is being deleted, or did not opt in, is ignored", () => {
  const terminating = { ...pod("terminating"), terminating: true };
  const namespaces = new Map([["shop", { inject: undefined, onChange: undefined }]]);
  assert.deepEqual(observeWorkloads(view([terminating])), []);
  assert.deepEqual(observeWorkloads(view([pod("other")], { namespaces })), []);
});

const AGENTS: ReadonlyArray<readonly [string, AgentState | "unknown" | undefined, boolean, string | undefined]> = [
  ["alive and current", { alive: true, mapRevision: "map-2" }, false, undefined],
  ["alive and behind", { alive: true, mapRevision: "map-1" }, true, "keeping"],
  ["silent", { alive: false, mapRevision: "map-2" }, true, "silent"],
  ["not there", undefined, true, "silent"],
  ["on a node that is not known yet", "unknown", true, "keeping"],
];

for (const [what, agent, stale, agents] of AGENTS) {
  test(`live, with an agent that is ${what}`, () => {
    const [group] = observeWorkloads(
      view([pod("p", { [REVISION]: "old" })], { fallback: "live", agentOf: () => agent }),
    );
    assert.deepEqual([group?.stale.length === 1, group?.observed.agents], [stale, agents]);
  });
}

test("a workload with an unfinished restart is observed although it has no pods", () => {
  const [group] = observeWorkloads(view([], { unfinished: ["shop/Deployment/gone"] }));
  assert.deepEqual([group?.owner.key, group?.pods], ["shop/Deployment/gone", 0]);
});
