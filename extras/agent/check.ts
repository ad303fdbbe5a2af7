import type { AddedCheck } from "#doctor/added-checks.ts";
import type { Fact } from "#doctor/fact.ts";
import { type Finding, findingsOf } from "#doctor/findings.ts";
import { createSelector } from "#hostmap/pod-selection.ts";
import type { PublishedMap, Reason } from "#hostmap/types.ts";
import type { Config } from "#lib/config/schema.ts";
import { readMap } from "#lib/documents/map-reader.ts";
import { nodeHostsSettings } from "./config.ts";
import { type AgentInfo, readAgents } from "./read-agents.ts";

const { ok, warning, broken, unknown } = findingsOf("node-hosts");

/** Maximum number of nodes that a finding names. */
const MAX_NAMED = 3;

/**
 * Checks whether the nodes' hosts files have the names that are chosen for them. Finds nothing if no names are
 * chosen.
 */
export const AGENT_CHECK: AddedCheck = {
  async prepare(source) {
    const { config } = source;
    if (config === undefined || nodeHostsSettings(config).names.length === 0) return () => [];
    const [agents, map] = await Promise.all([
      readAgents(source),
      readMap(source.client, source.namespace).catch(() => undefined),
    ]);
    return () => nodeHostsFindings(map, agents, config);
  },
  readUpdaters: readAgents,
};

export function nodeHostsFindings(
  map: PublishedMap | Reason | undefined,
  agents: Fact<readonly AgentInfo[]>,
  config: Config,
): Finding[] {
  if (!agents.known) return [unknown("nodes", agents.reason.code, agents.reason.text)];
  if (agents.value.length === 0) {
    const evidence = "names are chosen for nodes, and no node has an agent";
    return [
      broken("nodes", "node-hosts-no-agent", evidence, "set agent.enabled, and see the pods of switchback-agent"),
    ];
  }
  const wanted = wantedRevision(map, config);
  const behind = agents.value.flatMap((agent) => {
    const why = whyBehind(agent, wanted);
    return why === undefined ? [] : [`${agent.name}: ${why}`];
  });
  const taken = [...new Set(agents.value.flatMap(({ nodeHosts }) => nodeHosts?.taken ?? []))].sort();
  const findings = [
    ...(behind.length === 0 ? [] : [behindFinding(behind)]),
    ...(taken.length === 0 ? [] : [takenFinding(taken)]),
  ];
  return findings.length > 0
    ? findings
    : [ok("nodes", "extra-works", `${agents.value.length} node(s) have the names that are chosen for them`)];
}

/** Revision of the names that every node should have. Undefined if the map is not known. */
function wantedRevision(map: PublishedMap | Reason | undefined, config: Config): string | undefined {
  if (map === undefined || "code" in map) return undefined;
  return createSelector(map, config.inject.maxNames)(nodeHostsSettings(config).names.join(",")).revision;
}

function whyBehind({ nodeHosts, alive }: AgentInfo, wanted: string | undefined): string | undefined {
  if (!alive) return "its agent is silent";
  if (nodeHosts === undefined) return "its agent has not reported on the hosts file yet";
  if (nodeHosts.problem !== undefined) return `${nodeHosts.problem.code}: ${nodeHosts.problem.text}`;
  return wanted === undefined || nodeHosts.revision === wanted ? undefined : "it has the names of an earlier map";
}

function behindFinding(behind: readonly string[]): Finding {
  const rest = behind.length > MAX_NAMED ? `; and ${behind.length - MAX_NAMED} more` : "";
  const evidence = `${behind.length} node(s) are behind: ${behind.slice(0, MAX_NAMED).join("; ")}${rest}`;
  return warning("nodes", "node-hosts-behind", evidence, "see the code in docs/codes.md, and the log of that agent");
}

function takenFinding(taken: readonly string[]): Finding {
  const evidence = `somebody else's lines in hosts files of nodes have these names, and stay: ${taken.join(", ")}`;
  const cure = "remove these lines from /etc/hosts of the nodes, or leave them if they are intended";
  return warning("nodes", "node-hosts-taken", evidence, cure);
}
