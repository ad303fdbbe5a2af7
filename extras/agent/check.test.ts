import assert from "node:assert/strict";
import { test } from "node:test";
import { type Fact, known } from "#doctor/fact.ts";
import { createSelector } from "#hostmap/pod-selection.ts";
import { parseConfig } from "#lib/config/parse.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { FORBIDDEN, HEALTHY } from "#test/fakes/doctor-facts.ts";
import { MemoryServer } from "#test/fakes/memory-server.ts";
import { OBJECTS } from "#test/published.ts";
import { AGENT_CHECK, nodeHostsFindings } from "./check.ts";
import { AGENT_SECTIONS } from "./config.ts";
import type { NodeHostsReport } from "./node-hosts-report.ts";
import type { AgentInfo } from "./read-agents.ts";

const LEASES = "/apis/coordination.k8s.io/v1/namespaces/switchback-agent/leases";
const MAP = publishedMapOf("r1", new Map([["shop.example.com", ["198.51.100.9"]]]));
const OURS_MAP = `/api/v1/namespaces/ours/configmaps/${OBJECTS.map}`;
const CHOSEN = ["*.example.com"];
const { revision } = createSelector(MAP, 500)(CHOSEN.join());
const GOOD: NodeHostsReport = { revision, names: 1, taken: [], problem: undefined };

function agent(nodeHosts: NodeHostsReport | undefined, node = "a", silentMs = 0): AgentInfo {
  return {
    name: `switchback-agent-${node}`,
    mapRevision: undefined,
    podRevisions: [],
    silentMs,
    alive: silentMs < 600_000,
    nodeHosts,
  };
}

const configOf = (names: readonly string[]) => parseConfig({ nodeHosts: { names } }, AGENT_SECTIONS);

function run(agents: Fact<readonly AgentInfo[]>): string[] {
  return nodeHostsFindings(MAP, agents, configOf(CHOSEN)).map(
    ({ status, code, evidence }) => `${status} ${code} | ${evidence}`,
  );
}

const problem = { code: "write-failed", text: "no space" };
const CASES: ReadonlyArray<readonly [string, Fact<readonly AgentInfo[]>, readonly string[]]> = [
  ["all have them", known([agent(GOOD)]), ["ok extra-works | 1 node(s) have the names that are chosen for them"]],
  ["Leases cannot be read", FORBIDDEN, ["unknown right-missing | missing permission: get that"]],
  [
    "there is no agent",
    known([]),
    ["broken node-hosts-no-agent | names are chosen for nodes, and no node has an agent"],
  ],
  [
    "nodes are behind, each in another way",
    known([
      agent(GOOD, "good"),
      agent({ ...GOOD, problem }, "p"),
      agent(undefined, "n"),
      agent({ ...GOOD, revision: "old" }, "o"),
      agent(GOOD, "s", 601_000),
    ]),
    [
      "warning node-hosts-behind | 4 node(s) are behind: switchback-agent-p: write-failed: no space; " +
        "switchback-agent-n: its agent has not reported on the hosts file yet; " +
        "switchback-agent-o: it has the names of an earlier map; and 1 more",
    ],
  ],
  [
    "names are taken, each listed once",
    known([agent({ ...GOOD, taken: ["b", "a"] }), agent({ ...GOOD, taken: ["a"] })]),
    ["warning node-hosts-taken | somebody else's lines in hosts files of nodes have these names, and stay: a, b"],
  ],
];
for (const [what, agents, findings] of CASES) test(what, () => assert.deepEqual(run(agents), findings));

for (const [what, names, read] of [
  ["nothing is read, and nothing found, where no names are chosen", [], []],
  ["the Leases and the map are read where names are chosen", CHOSEN, [LEASES, OURS_MAP]],
] as const) {
  test(what, async () => {
    const server = new MemoryServer();
    const source = { client: server.client, namespace: "ours", config: configOf(names), now: 0 };
    const findings = (await AGENT_CHECK.prepare(source))(HEALTHY);
    assert.deepEqual(
      [server.calls.map(({ path }) => path), findings.map(({ code }) => code)],
      [read, names.length === 0 ? [] : ["node-hosts-no-agent"]],
    );
  });
}
