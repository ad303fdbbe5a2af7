import { statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { pause } from "#lib/kube/time.ts";
import { workloadPath } from "#lib/workloads/workload-kinds.ts";
import { AGENT_DAEMON_SET, listAgentLeases } from "./agent-lease-format.ts";
import { LEAVING_KEY } from "./metadata-keys.ts";

interface StopAgentsOptions {
  readonly client: KubeClient;
  /** The agents' namespace. */
  readonly namespace: string;
  /** Timeout for the agents, in milliseconds. */
  readonly timeoutMs: number;
  readonly now: () => number;
  readonly say: (line: string) => void;
}

const POLL_MS = 1_000;

/**
 * Asks the agents to remove their blocks from the hosts files of running pods. The blocks hold Switchback's addresses
 * too, and no pod's spec shows them. An agent that is done deletes its Lease. Returns the Leases that are left at the
 * timeout; none if there are no agents.
 */
export async function stopAgents({ client, namespace, timeoutMs, now, say }: StopAgentsOptions): Promise<string[]> {
  const path = workloadPath(namespace, "DaemonSet", AGENT_DAEMON_SET);
  try {
    await client.get(path);
  } catch (error) {
    if (statusOf(error) === 404) return [];
    throw error;
  }
  const annotations = { [LEAVING_KEY]: "true" };
  await client.mergePatch(path, { metadata: { annotations } }, { fieldManager: "switchback-uninstall" });
  say("the agents remove their names from the hosts files of running pods");
  const deadline = now() + timeoutMs;
  for (;;) {
    const left = (await listAgentLeases(client, namespace)).map(({ name: lease }) => lease);
    if (left.length === 0 || now() >= deadline) return left;
    await pause(POLL_MS);
  }
}
