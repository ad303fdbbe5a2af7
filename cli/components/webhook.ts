import type { ServingSource } from "#certs/serving.ts";
import { fileSource, secretSource } from "#certs/serving-sources.ts";
import { startPodDns } from "#extras/pod-dns/webhook/delivery.ts";
import type { Config } from "#lib/config/schema.ts";
import { kubeMapReader } from "#lib/documents/map-reader.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { type ProcessContext, type Running, withOwnClient } from "#lib/process/running.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import { runWebhook } from "#webhook/run.ts";

/**
 * `switchback webhook`: reads the map from its own namespace, and the certificate from a Secret there or from files.
 */
export async function startWebhook(config: Config, { log, connect }: ProcessContext): Promise<Running> {
  const registry = new MetricsRegistry();
  return await withOwnClient(connect, async (client) => {
    const { podDns, stop } = startPodDns(config, log, registry);
    try {
      const webhook = await runWebhook(config, {
        maps: kubeMapReader({ client, namespace: config.namespace, log }),
        certificates: certificatesOf(config, client, log),
        podDns,
        registry,
        log,
        now: Date.now,
      });
      return { ...webhook, stop: () => webhook.stop().finally(stop) };
    } catch (error) {
      await stop();
      throw error;
    }
  });
}

function certificatesOf({ certs, namespace }: Config, client: KubeClient, log: Logger): ServingSource {
  const { mode, certFile, keyFile } = certs;
  // The schema requires both files in mode `files`. cert-manager writes the same Secret as the controller does.
  if (mode === "files" && certFile !== undefined && keyFile !== undefined) return fileSource(certFile, keyFile);
  return secretSource(client, namespace, log);
}
