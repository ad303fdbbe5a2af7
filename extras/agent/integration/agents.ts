import { NODE } from "#test/cluster/kubelet.ts";
import { AGENTS, type System } from "#test/integration/system.ts";
import { agentLeaseName } from "../agent-lease-format.ts";

/** The agent's Lease. */
export interface AgentLease {
  readonly metadata: {
    readonly annotations?: Readonly<Record<string, string>>;
    readonly ownerReferences?: ReadonlyArray<{ readonly kind: string }>;
  };
  readonly spec: { readonly renewTime: string; readonly holderIdentity: string };
}

export async function agentLease(system: System): Promise<AgentLease> {
  return await system.json<AgentLease>("-n", AGENTS, "get", "lease", agentLeaseName(NODE));
}
