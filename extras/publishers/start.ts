import { asDnsWildcard, type NameProtection, protectNames } from "#hostmap/protected-names.ts";
import type { Config } from "#lib/config/schema.ts";
import { settingsOf } from "#lib/config/sections.ts";
import { kubeMapReader, readAs } from "#lib/documents/map-reader.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { type ConnectFlags, connect as connectByHand, connectOptionsFrom, isInPod } from "#lib/kube/connect.ts";
import type { CliContext } from "#lib/process/context.ts";
import { searchesOfPods } from "#lib/process/resolv-conf.ts";
import { type ProcessContext, type Running, withOwnClient } from "#lib/process/running.ts";
import { PUBLISHERS_SECTION } from "./config.ts";
import { createPublisher } from "./create.ts";
import type { PublisherName } from "./names.ts";
import type { Publisher } from "./publisher.ts";
import { toPublisherMap } from "./publisher-map.ts";
import { PublisherStateStore } from "./publisher-state-store.ts";
import { removePublisher } from "./remove.ts";
import { runPublisher } from "./run.ts";

/** How long to wait until the cluster's DNS has stopped answering. */
const REMOVE_MS = 300_000;

/** `switchback publish NAME`: gives the map to readers other than opted-in pods. */
export function publisherStarter(name: PublisherName) {
  return async (config: Config, { log, connect, clusterDomain, resolvConf }: ProcessContext): Promise<Running> =>
    await withOwnClient(connect, (client) => {
      const publisher = publisherOf(name, config, client);
      const protect = protectNames(clusterDomain, searchesOfPods(resolvConf, config));
      const protectRecord: NameProtection = publisher.writesRecords ? (each) => protect(asDnsWildcard(each)) : protect;
      const maps = kubeMapReader({ client, namespace: config.namespace, log });
      return runPublisher({
        publisher,
        address: config.address,
        maps: readAs(maps, (map) => toPublisherMap(map, protectRecord)),
        store: new PublisherStateStore(client, config.namespace, name),
        log,
        now: Date.now,
      });
    });
}

interface RemoveFlags extends ConnectFlags {
  readonly yes?: boolean;
}

/**
 * `switchback publish NAME --remove`: asks for confirmation, takes out what the publisher has written, and deletes
 * its document. Throws what `removePublisher` throws, and `declined` if the answer is not yes.
 */
export async function removeOnePublisher(
  name: PublisherName,
  config: Config,
  flags: RemoveFlags,
  { env, stdout, progress }: CliContext,
  agree: (question: string) => Promise<void>,
): Promise<void> {
  const client = await connectByHand(connectOptionsFrom(env, flags));
  const store = new PublisherStateStore(client, config.namespace, name);
  try {
    const publisher = publisherOf(name, config, client);
    const where = `the ${publisher.place}, in the cluster ${client.server}`;
    const isThere = async () => (await store.read()) !== undefined || (await publisher.isThere());
    if (!(await progress.during("reading the cluster", isThere))) {
      stdout.line(`nothing to remove: ${name} has written nothing in ${where}`);
      return;
    }
    stdout.line(`${name}: takes its names out of ${where}`);
    if (!flags.yes) await agree("remove them now? [y/N] ");
    const canAsk = isInPod(env);
    await removePublisher({ publisher, store, canAsk, timeoutMs: REMOVE_MS, now: Date.now, say: stdout.line });
    await store.delete();
  } finally {
    client.close();
  }
}

function publisherOf(name: PublisherName, config: Config, client: KubeClient): Publisher {
  const { namespace, sources } = config;
  const publishers = settingsOf(config, PUBLISHERS_SECTION);
  return createPublisher(name, { publishers, namespace, sources }, client);
}
