import { runAgent } from "../agent/run.ts";
import type { Config } from "../config/schema.ts";
import { kubeMapReader } from "../snapshot/map-reader.ts";
import type { ProcessContext, Running } from "./serve.ts";

/** `switchback agent`: reads the map from its own namespace and keeps the hosts files of this node current. */
export async function startAgent(config: Config, { log, connect, identity }: ProcessContext): Promise<Running> {
  const client = await connect();
  const maps = kubeMapReader({ client, namespace: config.namespace, log });
  const running = await runAgent(config, { client, maps, log, identity, now: Date.now });
  return {
    async stop() {
      await running.stop();
      client.close();
    },
  };
}
