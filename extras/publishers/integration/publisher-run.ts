import { parse } from "yaml";
import { configSections } from "#cli/extras.ts";
import { PublisherStateStore } from "#extras/publishers/publisher-state-store.ts";
import { protectNames } from "#hostmap/protected-names.ts";
import { parseConfig } from "#lib/config/parse.ts";
import { settingsOf } from "#lib/config/sections.ts";
import { kubeMapReader, readAs } from "#lib/documents/map-reader.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { connect } from "#lib/kube/connect.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { NAMESPACE, type System, until } from "#test/integration/system.ts";
import { PUBLISHERS_SECTION, type PublishersSettings } from "../config.ts";
import { createPublisher } from "../create.ts";
import type { PublisherName } from "../names.ts";
import type { Publisher } from "../publisher.ts";
import { toPublisherMap } from "../publisher-map.ts";
import { runPublisher } from "../run.ts";

/** A publisher in this process. */
export interface PublisherRun {
  readonly publisher: Publisher;
  readonly store: PublisherStateStore;
  /** Token of its account. */
  readonly token: string;
  /** Waits until it has made two more steps. */
  looked(): Promise<void>;
  stop(): Promise<void>;
}

/**
 * Runs a publisher as the chart's Deployment does: with the account, the rights and the configuration that the
 * chart has for it.
 */
export async function startPublisher(
  system: System,
  name: PublisherName,
  make: (settings: PublishersSettings, client: KubeClient) => Publisher = (publishers, client) =>
    createPublisher(name, { publishers, namespace: NAMESPACE }, client),
): Promise<PublisherRun> {
  const account = `switchback-publisher-${name}`;
  const token = await system.cluster.tokenFor(`${NAMESPACE}/${account}`);
  const client = await connect({ kubeconfig: await system.cluster.kubeconfigFor({ token }) });
  const mounted = 'jsonpath={.spec.template.spec.volumes[?(@.name=="config")].configMap.name}';
  const map = await system.kubectl("-n", NAMESPACE, "get", "deployment", account, "-o", mounted);
  const text = await system.kubectl("-n", NAMESPACE, "get", "cm", map, "-o", "jsonpath={.data.config\\.yaml}");
  const settings = settingsOf(parseConfig(parse(text), await configSections()), PUBLISHERS_SECTION);
  const publisher = make(settings, client);
  const store = new PublisherStateStore(client, NAMESPACE, name);
  let steps = 0;
  const running = await runPublisher({
    publisher,
    address: "127.0.0.1",
    healthPort: 0,
    times: { checkMs: 1_000, minIntervalMs: 0, answerMs: 300_000 },
    maps: readAs(kubeMapReader({ client, namespace: NAMESPACE, log: silentLogger }), (map) =>
      toPublisherMap(map, protectNames("cluster.local")),
    ),
    store: {
      async read() {
        steps += 1;
        return await store.read();
      },
      write: (...args) => store.write(...args),
    },
    log: silentLogger,
    now: Date.now,
  });
  return {
    publisher,
    store,
    token,
    async looked() {
      const before = steps;
      await until("two steps of the publisher", () => steps >= before + 2, 15_000);
    },
    async stop() {
      await running.stop();
      client.close();
    },
  };
}
