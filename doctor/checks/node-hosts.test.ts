import assert from "node:assert/strict";
import { test } from "node:test";
import { createSelector } from "#hostmap/select-hosts.ts";
import { parseConfig } from "#lib/config/parse.ts";
import type { NodeHostsReport } from "#lib/documents/node-hosts-report.ts";
import { FORBIDDEN, HEALTHY, MAP } from "#test/fakes/doctor-facts.ts";
import type { AgentInfo, ClusterFacts } from "../facts.ts";
import { known } from "../known.ts";
import { checkNodeHosts } from "./node-hosts.ts";

const CHOSEN = ["*.example.com"];
const { revision } = createSelector(MAP, 500)(CHOSEN.join());
const GOOD: NodeHostsReport = { revision, names: 1, taken: [], problem: undefined };

function agent(nodeHosts: NodeHostsReport | undefined, node = "a", silentMs = 0): AgentInfo {
  return { lease: `switchback-agent-${node}`, mapRevision: undefined, podRevisions: [], silentMs, nodeHosts };
}

function run(agents: ClusterFacts["agents"], names: readonly string[] = CHOSEN): string[] {
  const install = { ...HEALTHY.install, config: known(parseConfig({ nodeHosts: { names } })) };
  return checkNodeHosts({ ...HEALTHY, install, agents }).map(
    ({ status, code, evidence }) => `${status} ${code} | ${evidence}`,
  );
}

const problem = { code: "write-failed", text: "no space" };
const CASES: ReadonlyArray<readonly [string, ClusterFacts["agents"], readonly string[]]> = [
  [
    "all have them",
    known([agent(GOOD)]),
    ["ok node-hosts-current | 1 node(s) have the names that are chosen for them"],
  ],
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
        "switchback-agent-n: its agent reports nothing of it yet; switchback-agent-o: it has the names of an earlier " +
        "map; and 1 more",
    ],
  ],
  [
    "names are taken, each listed once",
    known([agent({ ...GOOD, taken: ["b", "a"] }), agent({ ...GOOD, taken: ["a"] })]),
    ["warning node-hosts-taken | lines of somebody else have names in hosts files of nodes, and stay: a, b"],
  ],
];
for (const [what, agents, findings] of CASES) test(what, () => assert.deepEqual(run(agents), findings));

test("nothing where no names are chosen", () => assert.deepEqual(run(known([agent(GOOD)]), []), []));
