import type { Config } from "#lib/config/schema.ts";
import { kubeTargetsReader, mountedTargets } from "#lib/documents/targets-reader.ts";
import { type ProcessContext, type Running, withOwnClient } from "#lib/process/running.ts";
import { runProxy } from "#proxy/run.ts";

/** Path where the chart mounts the targets' ConfigMap. */
const MOUNTED_TARGETS = "/etc/switchback/targets/targets.json";

/**
 * `switchback proxy`: watches the published targets if there is an API server, else relays to the configured targets.
 * `filesOfOthers` is the number of file descriptors that other parts of the process need.
 */
export async function startProxy(config: Config, context: ProcessContext, filesOfOthers = 0): Promise<Running> {
  const { log, clusterDomain, connect, hasCluster } = context;
  if (!hasCluster) return await runProxy(config, { log, clusterDomain, filesOfOthers });
  return await withOwnClient(connect, (client) =>
    runProxy(config, {
      log,
      clusterDomain,
      filesOfOthers,
      targetsReader: kubeTargetsReader({ client, namespace: config.namespace, log }),
      readMountedTargets: () => mountedTargets(MOUNTED_TARGETS, log),
    }),
  );
}
