import type { Config } from "../config/schema.ts";
import { runDns } from "../dns/run.ts";
import { kubeMapReader } from "../snapshot/map-reader.ts";
import { withOwnClient } from "./own-client.ts";
import type { ProcessContext, Running } from "./serve.ts";

/** `switchback dns`: reads the map from its own namespace and writes the files of the CoreDNS beside it. */
export async function startDns(config: Config, { log, connect, clusterDomain }: ProcessContext): Promise<Running> {
  return await withOwnClient(connect, (client) =>
    runDns(config, {
      maps: kubeMapReader({ client, namespace: config.namespace, log }),
      clusterDomain,
      log,
      now: Date.now,
    }),
  );
}
