import { statusOf } from "../errors/errors.ts";
import { LEAVING_KEY } from "../hostmap/metadata-keys.ts";
import type { KubeClient } from "../kube/client.ts";
import { resourcePath } from "../kube/paths.ts";
import { pause } from "../kube/time.ts";
import { AGENT_DAEMON_SET } from "../snapshot/agent-lease-format.ts";
import { listAgentLeases } from "../snapshot/agent-lease-reader.ts";

interface StopAgentsOptions {
  readonly client: KubeClient;
  /** The agents' own. */
  readonly namespace: string;
  /** How long they may take, milliseconds. */
  readonly timeoutMs: number;
  readonly now: () => number;
  readonly say: (line: string) => void;
}

const POLL_MS = 1_000;

/**
 * Has the agents take their blocks out of the hosts files of running pods: those hold our addresses too, and no pod's spec tells.
 * An agent that is done deletes its Lease. @returns the Leases that are still there when the time is over; none without agents.
 */
export async function stopAgents({ client, namespace, timeoutMs, now, say }: StopAgentsOptions): Promise<string[]> {
  const path = resourcePath({
    group: "apps",
    version: "v1",
    resource: "daemonsets",
    namespace,
    name: AGENT_DAEMON_SET,
  });
  try {
    await client.get(path);
  } catch (error) {
    if (statusOf(error) === 404) return [];
    throw error;
  }
  const annotations = { [LEAVING_KEY]: "true" };
  await client.mergePatch(path, { metadata: { annotations } }, { fieldManager: "switchback-uninstall" });
  say("the agents take their names out of the hosts files of running pods");
  const deadline = now() + timeoutMs;
  for (;;) {
    const left = (await listAgentLeases(client, namespace)).map(({ name: lease }) => lease);
    if (left.length === 0 || now() >= deadline) return left;
    await pause(POLL_MS);
  }
}
