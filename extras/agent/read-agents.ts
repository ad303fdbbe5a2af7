import type { FactSource } from "#doctor/added-checks.ts";
import { type Fact, readFact } from "#doctor/fact.ts";
import type { UpdaterInfo } from "#doctor/facts.ts";
import { DEFAULT_AGENT_SILENCE_SECONDS } from "#lib/config/defaults.ts";
import type { Config } from "#lib/config/schema.ts";
import { type AgentLease, listAgentLeases } from "./agent-lease-format.ts";
import { agentSettings } from "./config.ts";

/** A node's agent, as its Lease shows it. */
export interface AgentInfo extends UpdaterInfo, Pick<AgentLease, "nodeHosts"> {}

/** Reads the agents' Leases. A Lease without a renewal counts as renewed in 1970. */
export async function readAgents({ client, config, now }: FactSource): Promise<Fact<readonly AgentInfo[]>> {
  const { namespace } = agentSettings(config ?? {});
  return await readFact({ verb: "list", resource: "leases.coordination.k8s.io", namespace }, async () => {
    const leases = await listAgentLeases(client, namespace);
    return leases.map(({ name, mapRevision, podRevisions, nodeHosts, renewTime }) => {
      const silentMs = now - Date.parse(renewTime ?? "1970-01-01T00:00:00Z");
      const alive = silentMs <= maxSilenceMs(config);
      return { name, mapRevision, podRevisions, silentMs, alive, ...(nodeHosts !== undefined && { nodeHosts }) };
    });
  });
}

/** Maximum silence of an agent that works, in milliseconds. */
function maxSilenceMs(config: Config | undefined): number {
  return (config?.pods.agentSilenceSeconds ?? DEFAULT_AGENT_SILENCE_SECONDS) * 1000;
}
