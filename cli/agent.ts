import { confine } from "#extras/agent/confine.ts";
import { nodeHostsPath } from "#extras/agent/node-hosts.ts";
import { runAgent } from "#extras/agent/run.ts";
import type { Config } from "#lib/config/schema.ts";
import { kubeMapReader } from "#lib/documents/map-reader.ts";
import { isInPod } from "#lib/kube/connect.ts";
import type { ProcessContext, Running } from "./component.ts";
import { withOwnClient } from "./own-client.ts";
import { ownCommand } from "./own-files.ts";

/** `switchback agent`: reads the map from its own namespace and keeps the hosts files of this node current. */
export async function startAgent(config: Config, { env, log, connect, identity }: ProcessContext): Promise<Running> {
  // By hand, a kubeconfig may name programs that have to be executed.
  if (config.agent.confine && isInPod(env) && !env.KUBECONFIG)
    await confine({ config: config.agent, nodeHosts: nodeHostsPath(config), env, log, command: sameCommand() });
  return await withOwnClient(connect, (client) => {
    const maps = kubeMapReader({ client, namespace: config.namespace, log });
    return runAgent(config, { client, maps, log, identity, now: Date.now });
  });
}

/** This process's own command, with Node's flags. */
function sameCommand(): readonly [string, ...string[]] {
  const [program, ...script] = ownCommand();
  return [program, ...process.execArgv, ...script, ...process.argv.slice(2)];
}
