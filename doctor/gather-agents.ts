import type { Config } from "../config/schema.ts";
import type { KubeClient } from "../kube/client.ts";
import type { Lease } from "../kube/lease-record.ts";
import { resourcePath } from "../kube/paths.ts";
import { AGENT_LEASE_LABELS, appliedRevision } from "../snapshot/agent-lease.ts";
import type { AgentInfo } from "./facts.ts";
import { type Known, learn } from "./known.ts";

/** The Leases of the agents. `now` is in milliseconds since 1970; a Lease that was never renewed has been silent for ever. */
export async function gatherAgents(
  client: KubeClient,
  { namespace }: Config["agent"],
  now: number,
): Promise<Known<readonly AgentInfo[]>> {
  return await learn({ verb: "list", resource: "leases.coordination.k8s.io", namespace }, async () => {
    const path = resourcePath({ group: "coordination.k8s.io", version: "v1", resource: "leases", namespace });
    const labelSelector = Object.entries(AGENT_LEASE_LABELS)
      .map(([key, value]) => `${key}=${value}`)
      .join(",");
    const { items } = await client.list<Lease>(path, { labelSelector });
    return items.map(({ metadata, spec }) => {
      const silentMs = now - Date.parse(spec?.renewTime ?? "1970-01-01T00:00:00Z");
      return { lease: metadata.name ?? "", revision: appliedRevision(metadata), silentMs };
    });
  });
}
