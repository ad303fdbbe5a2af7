import { listAgentLeases } from "#lib/documents/agent-lease-format.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { AgentInfo } from "./facts.ts";
import { type Fact, readFact } from "./known.ts";

/**
 * Reads the agents' Leases. `now` is in milliseconds since 1970. A Lease without a renewal counts
 * as renewed in 1970.
 */
export async function gatherAgents(
  client: KubeClient,
  namespace: string,
  now: number,
): Promise<Fact<readonly AgentInfo[]>> {
  return await readFact({ verb: "list", resource: "leases.coordination.k8s.io", namespace }, async () => {
    const leases = await listAgentLeases(client, namespace);
    return leases.map(({ name, mapRevision, podRevisions, nodeHosts, renewTime }) => {
      const silentMs = now - Date.parse(renewTime ?? "1970-01-01T00:00:00Z");
      return { lease: name, mapRevision, podRevisions, silentMs, ...(nodeHosts !== undefined && { nodeHosts }) };
    });
  });
}
