import { createSelector } from "#hostmap/select-hosts.ts";
import { DEFAULT_AGENT_SILENCE_SECONDS } from "#lib/config/defaults.ts";
import type { AgentInfo, ClusterFacts } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";

const { ok, warning, broken, unknown } = findingsOf("node-hosts");

/** Nodes that are named one by one. */
const MAX_NAMED = 3;

/** Whether the hosts files of the nodes have the names that are chosen for them. Nothing where none are. */
export function checkNodeHosts(facts: ClusterFacts): Finding[] {
  const { install, agents } = facts;
  const config = install.config.known ? install.config.value : undefined;
  if (config === undefined || config.nodeHosts.names.length === 0 || agents === undefined) return [];
  if (!agents.known) return [unknown("nodes", agents.reason.code, agents.reason.text)];
  if (agents.value.length === 0) {
    const evidence = "names are chosen for nodes, and no node has an agent";
    return [
      broken("nodes", "node-hosts-no-agent", evidence, "set agent.enabled, and see the pods of switchback-agent"),
    ];
  }
  const wanted = wantedRevision(facts);
  const maxSilenceMs = (config.pods.agentSilenceSeconds ?? DEFAULT_AGENT_SILENCE_SECONDS) * 1000;
  const behind = agents.value.flatMap((agent) => {
    const why = whyBehind(agent, wanted, maxSilenceMs);
    return why === undefined ? [] : [`${agent.lease}: ${why}`];
  });
  const taken = [...new Set(agents.value.flatMap(({ nodeHosts }) => nodeHosts?.taken ?? []))].sort();
  const findings = [
    ...(behind.length === 0 ? [] : [behindFinding(behind)]),
    ...(taken.length === 0 ? [] : [takenFinding(taken)]),
  ];
  return findings.length > 0
    ? findings
    : [ok("nodes", "node-hosts-current", `${agents.value.length} node(s) have the names that are chosen for them`)];
}

/** The revision of what every node is to have; undefined: the map is not known. */
function wantedRevision({ install }: ClusterFacts): string | undefined {
  const config = install.config.known ? install.config.value : undefined;
  const map = install.map.known ? install.map.value?.map : undefined;
  if (config === undefined || map === undefined || "code" in map) return undefined;
  return createSelector(map, config.inject.maxNames)(config.nodeHosts.names.join(",")).revision;
}

function whyBehind(
  { nodeHosts, silentMs }: AgentInfo,
  wanted: string | undefined,
  maxSilenceMs: number,
): string | undefined {
  if (silentMs > maxSilenceMs) return "its agent is silent";
  if (nodeHosts === undefined) return "its agent reports nothing of it yet";
  if (nodeHosts.problem !== undefined) return `${nodeHosts.problem.code}: ${nodeHosts.problem.text}`;
  return wanted === undefined || nodeHosts.revision === wanted ? undefined : "it has the names of an earlier map";
}

function behindFinding(behind: readonly string[]): Finding {
  const rest = behind.length > MAX_NAMED ? `; and ${behind.length - MAX_NAMED} more` : "";
  const evidence = `${behind.length} node(s) are behind: ${behind.slice(0, MAX_NAMED).join("; ")}${rest}`;
  return warning("nodes", "node-hosts-behind", evidence, "see the code in docs/codes.md, and the log of that agent");
}

function takenFinding(taken: readonly string[]): Finding {
  const evidence = `lines of somebody else have names in hosts files of nodes, and stay: ${taken.join(", ")}`;
  return warning("nodes", "node-hosts-taken", evidence, "remove these lines from /etc/hosts of the nodes, or nothing");
}
