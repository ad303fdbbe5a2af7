import type { Config } from "../config/schema.ts";
import { runProxy } from "../proxy/run.ts";
import { kubeTargetsReader, mountedTargets } from "../snapshot/targets-reader.ts";
import type { ProcessContext, Running } from "./serve.ts";

/** Mount path of the targets' ConfigMap in the chart. */
const MOUNTED_TARGETS = "/etc/switchback/targets/targets.json";

/** `switchback proxy`: watches the published targets if there is an API server, else relays to the configured targets. */
export async function startProxy(config: Config, context: ProcessContext): Promise<Running> {
  const { log, clusterDomain, connect, hasCluster } = context;
  if (!hasCluster) return await runProxy(config, { log, clusterDomain });
  const client = await connect();
  const feed = kubeTargetsReader({ client, namespace: config.namespace, log });
  const running = await runProxy(config, {
    log,
    clusterDomain,
    targetsReader: feed,
    readMountedTargets: () => mountedTargets(MOUNTED_TARGETS, log),
  });
  return {
    broken: running.broken,
    async stop() {
      await running.stop();
      client.close();
    },
  };
}
