import type { Config } from "../config/schema.ts";
import type { KubeClient } from "../kube/client.ts";
import { listAgentLeases } from "../snapshot/agent-lease-reader.ts";
import type { AgentInfo } from "./facts.ts";
import { type Known, learn } from "./known.ts";

/** The Leases of the agents. `now` is in milliseconds since 1970; a Lease that was never renewed has been silent for ever. */
export async function gatherAgents(
  client: KubeClient,
  { namespace }: Config["agent"],
  now: number,
): Promise<Known<readonly AgentInfo[]>> {
  return await learn({ verb: "list", resource: "leases.coordination.k8s.io", namespace }, async () => {
    const leases = await listAgentLeases(client, namespace);
    return leases.map(({ name, mapRevision, renewTime }) => {
      const silentMs = now - Date.parse(renewTime ?? "1970-01-01T00:00:00Z");
      return { lease: name, mapRevision, silentMs };
    });
  });
}
