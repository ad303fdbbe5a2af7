import type { Config } from "#lib/config/schema.ts";
import { kubeReaderOf } from "#lib/documents/map-reader.ts";
import { type ProcessContext, type Running, withOwnClient } from "#lib/process/running.ts";
import { DNS_MAP } from "./dns-map.ts";
import { runDns } from "./run.ts";
import { nodeSearchesNotice, readClusterDns } from "./webhook/dns-config.ts";

/** `switchback dns`: reads the map from its own namespace and writes the files of the CoreDNS beside it. */
export async function startDns(
  config: Config,
  { log, connect, clusterDomain, resolvConf }: ProcessContext,
): Promise<Running> {
  const { podDns, namespace } = config;
  const cluster = readClusterDns(resolvConf, namespace, podDns.searches);
  // Resolvers are spread over nodes, so that some of them see what the webhook's node has not.
  const notice = "code" in cluster ? undefined : nodeSearchesNotice(cluster, podDns.searches);
  if (notice !== undefined) log.warn({ ...notice }, "pod DNS: search domains");
  return await withOwnClient(connect, (client) =>
    runDns(config, {
      maps: kubeReaderOf(DNS_MAP, { client, namespace: config.namespace, log }),
      clusterDomain,
      log,
      now: Date.now,
    }),
  );
}
