import type { Config } from "../config/schema.ts";
import { runProxy } from "../proxy/run.ts";
import { configMapTargets, mountedTargets } from "../snapshot/targets-reader.ts";
import type { ProcessContext, Running } from "./serve.ts";

/** Where the chart mounts the ConfigMap of the targets. */
const MOUNTED = "/etc/switchback/targets/targets.json";

/** `switchback proxy`: follows the targets where there is an API server to ask, else relays to those of the config. */
export async function startProxy(config: Config, surroundings: ProcessContext): Promise<Running> {
  const { log, clusterDomain, connect, hasCluster } = surroundings;
  if (!hasCluster) return await runProxy(config, { log, clusterDomain });
  const client = await connect();
  const feed = configMapTargets({ client, namespace: config.namespace, log });
  const running = await runProxy(config, { log, clusterDomain, feed, mounted: () => mountedTargets(MOUNTED, log) });
  return {
    broken: running.broken,
    async stop() {
      await running.stop();
      client.close();
    },
  };
}
