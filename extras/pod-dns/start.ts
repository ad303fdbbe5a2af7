import { protectNames } from "#hostmap/protected-names.ts";
import type { Config } from "#lib/config/schema.ts";
import { settingsOf } from "#lib/config/sections.ts";
import { kubeMapReader, readAs } from "#lib/documents/map-reader.ts";
import { searchesOfPods } from "#lib/process/resolv-conf.ts";
import { type ProcessContext, type Running, withOwnClient } from "#lib/process/running.ts";
import { POD_DNS_SECTION, resolverOf } from "./config.ts";
import { toDnsMap } from "./dns-map.ts";
import { runDns } from "./run.ts";
import { nodeSearchesNotice, readClusterDns } from "./webhook/dns-config.ts";

/** `switchback dns`: reads the map from its own namespace and writes the files of the CoreDNS beside it. */
export async function startDns(
  config: Config,
  { env, log, connect, clusterDomain, resolvConf }: ProcessContext,
): Promise<Running> {
  const { namespace } = config;
  const { searches } = settingsOf(config, POD_DNS_SECTION);
  const cluster = readClusterDns(resolvConf, namespace, searches);
  // Resolvers run on several nodes. Some of them may see search domains that the webhook's node does not have.
  const notice = "code" in cluster ? undefined : nodeSearchesNotice(cluster, searches);
  if (notice !== undefined) log.warn({ ...notice }, "pod DNS: search domains");
  const protect = protectNames(clusterDomain, searchesOfPods(resolvConf, config));
  return await withOwnClient(connect, (client) =>
    runDns(resolverOf(config, env), {
      maps: readAs(kubeMapReader({ client, namespace, log }), (map) => toDnsMap(map, protect)),
      clusterDomain,
      log,
      now: Date.now,
    }),
  );
}
