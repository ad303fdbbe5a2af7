import type { Config } from "#lib/config/schema.ts";
import { kubeMapReader } from "#lib/documents/map-reader.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { isInPod } from "#lib/kube/connect.ts";
import { type ProcessContext, type Running, withOwnClient } from "#lib/process/running.ts";
import { agentSettings } from "./config.ts";
import { confine } from "./confine.ts";
import { nodeHostsPath } from "./node-hosts.ts";
import { runAgent } from "./run.ts";

/** `switchback agent`: reads the map from its own namespace and keeps the hosts files of this node current. */
export async function startAgent(
  config: Config,
  { env, log, connect, identity, command, clusterDomain }: ProcessContext,
): Promise<Running> {
  // The chart sets it by the downward API.
  const node = env.SWITCHBACK_AGENT_NODE;
  if (node === undefined)
    throw new SwitchbackError(
      "config-invalid",
      "SWITCHBACK_AGENT_NODE is missing: set it to the node whose pods to follow",
    );
  // If the agent runs by hand, a kubeconfig may name programs that must be executed.
  const settings = agentSettings(config);
  if (settings.confine && isInPod(env) && !env.KUBECONFIG)
    await confine({ config: settings, nodeHosts: nodeHostsPath(config), env, log, command: command() });
  return await withOwnClient(connect, (client) => {
    const maps = kubeMapReader({ client, namespace: config.namespace, log });
    return runAgent({ ...config, clusterDomain }, { client, maps, log, identity, node, now: Date.now });
  });
}
