import assert from "node:assert/strict";
import { test } from "node:test";
import type { HostsReconcilerState } from "./hosts-reconciler.ts";
import { agentMetrics } from "./metrics.ts";
import type { NodeHostsReport } from "./node-hosts-report.ts";

test("each scrape returns the current gauges in the text format", () => {
  const refused = (pod: string, code: string) => ({ pod, reason: { code, text: "why" } });
  let state: HostsReconcilerState & { nodeHosts: NodeHostsReport | undefined } = {
    applied: "r1",
    podRevisions: [],
    live: 3,
    written: 7,
    problems: [refused("a", "file-busy"), refused("b", "not-kubelets"), refused("c", "file-busy")],
    roundMs: 1_500,
    nodeHosts: { revision: "r", names: 3, taken: ["a"], problem: { code: "write-failed", text: "why" } },
  };
  const registry = agentMetrics(() => state);
  assert.equal(registry.contentType, "text/plain; version=0.0.4; charset=utf-8");
  const full = [
    "# HELP switchback_agent_pods Pods of the node that follow the map by their hosts file.",
    "# TYPE switchback_agent_pods gauge",
    "switchback_agent_pods 3",
    "# HELP switchback_agent_in_step 1 while each of these pods has the newest map.",
    "# TYPE switchback_agent_in_step gauge",
    "switchback_agent_in_step 1",
    "# HELP switchback_agent_writes_total Hosts files written.",
    "# TYPE switchback_agent_writes_total counter",
    "switchback_agent_writes_total 7",
    "# HELP switchback_agent_round_seconds From the arrival of the last map to the last file written.",
    "# TYPE switchback_agent_round_seconds gauge",
    "switchback_agent_round_seconds 1.5",
    "# HELP switchback_agent_refused_pods Pods whose hosts file cannot be written, by reason code.",
    "# TYPE switchback_agent_refused_pods gauge",
    'switchback_agent_refused_pods{code="file-busy"} 2',
    'switchback_agent_refused_pods{code="not-kubelets"} 1',
    "# HELP switchback_agent_node_hosts_names Names in the hosts file of the node.",
    "# TYPE switchback_agent_node_hosts_names gauge",
    "switchback_agent_node_hosts_names 3",
    "# HELP switchback_agent_node_hosts_taken Names left out of that file, because somebody else's line has them.",
    "# TYPE switchback_agent_node_hosts_taken gauge",
    "switchback_agent_node_hosts_taken 1",
    "# HELP switchback_agent_node_hosts_problem 1 while that file is not current, by reason code.",
    "# TYPE switchback_agent_node_hosts_problem gauge",
    'switchback_agent_node_hosts_problem{code="write-failed"} 1',
    "",
  ];
  assert.equal(registry.metrics(), full.join("\n"));
  state = { ...state, applied: undefined, problems: [], nodeHosts: undefined };
  const samples = registry
    .metrics()
    .split("\n")
    .filter((line) => !line.startsWith("#"));
  assert.deepEqual(samples, [
    "switchback_agent_pods 3",
    "switchback_agent_in_step 0",
    "switchback_agent_writes_total 7",
    "switchback_agent_round_seconds 1.5",
    "switchback_agent_node_hosts_names 0",
    "switchback_agent_node_hosts_taken 0",
    "",
  ]);
});
