import { type ServingSource, watchServingCertificate } from "#certs/serving.ts";
import type { PublishedMap, Reason } from "#hostmap/types.ts";
import type { Config } from "#lib/config/schema.ts";
import type { MapReader } from "#lib/documents/map-reader.ts";
import { isMap } from "#lib/documents/published-map.ts";
import { type HealthServer, livenessOf, type Probes, startHealthServer } from "#lib/http/listen.ts";
import { pause } from "#lib/kube/time.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import { createApp } from "./app.ts";
import { LOADED_PATH, renderLoadedPage, type WebhookState, webhookReadiness } from "./health.ts";
import { createInjectionCache } from "./injection-cache.ts";
import type { PodDns } from "./injection-decision.ts";
import { addStateGauges, createWebhookMetrics } from "./metrics.ts";
import { createWebhookServer } from "./server.ts";

/** The dependencies of a webhook. */
interface WebhookDeps {
  readonly maps: MapReader;
  readonly certificates: ServingSource;
  /** Default: pods get the names by hostAliases only. */
  readonly podDns?: PodDns;
  /** Registry of the metrics. Default: a new one. */
  readonly registry?: MetricsRegistry;
  readonly log: Logger;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Resolves after this many milliseconds; replaced only in tests. */
  readonly pause?: (ms: number) => Promise<void>;
}

/**
 * Time for requests that are in flight when readiness fails. The chart's preStop sleep waits until no Service routes
 * to this pod.
 */
const DRAIN_MS = 1_000;
/** Time for running requests to finish. Admissions take a few milliseconds; an API server waits for two seconds. */
const GRACE_MS = 5_000;

/**
 * Runs one webhook replica. It serves as soon as its ports are bound, and is ready once it has a certificate and a
 * map. Throws `listen-failed`.
 */
export async function runWebhook(config: Pick<Config, "address" | "webhook" | "pods" | "inject">, deps: WebhookDeps) {
  const { log, now, podDns } = deps;
  const { address } = config;
  const { port, healthPort } = config.webhook;
  const metrics = createWebhookMetrics(deps.registry);
  const app = createApp({
    map: () => state.map,
    via: { fallback: config.pods.via, podDns },
    metrics,
    log,
  });
  const server = createWebhookServer(app);
  const certificates = watchServingCertificate(deps.certificates, server.usePair, { now, log });
  const state: WebhookState = { map: undefined, mapProblem: undefined, serving: certificates.status, draining: false };
  addStateGauges(metrics.registry, state);
  const maps = deps.maps.start((offer) => applyOffer(state, offer, config.inject.maxNames, log));
  const probes: Probes = {
    live: () => livenessOf(maps.inactiveMs?.() ?? 0),
    ready: () => webhookReadiness(state),
  };
  const stopReading = async (): Promise<void> => {
    await Promise.all([maps, certificates].map((part) => part.stop()));
  };
  let health: HealthServer | undefined;
  let bound: number;
  try {
    health = await startHealthServer({
      ...probes,
      address,
      port: healthPort,
      registry: metrics.registry,
      pages: { [LOADED_PATH]: { render: () => renderLoadedPage(state) } },
    });
    bound = await server.listen(address, port);
  } catch (error) {
    await stopReading();
    await health?.close();
    throw error;
  }
  log.info({ port: bound, healthPort: health.port }, "listening");
  /** Fails readiness, keeps serving until callers use other replicas, then waits for running requests. */
  const stop = async (): Promise<void> => {
    state.draining = true;
    server.drain();
    await (deps.pause ?? pause)(DRAIN_MS);
    await server.close(GRACE_MS);
    await stopReading();
    await health.close();
  };
  return { port: bound, healthPort: health.port, probes, stop };
}

/** Replaces the map as a whole. An unusable offer is logged once, and the last good map stays in use. */
function applyOffer(state: WebhookState, offer: PublishedMap | Reason, maxNames: number, log: Logger): void {
  if (!isMap(offer)) {
    if (offer.text !== state.mapProblem?.text)
      log.warn({ ...offer, revision: state.map?.revision }, "map: the newest version is rejected");
    state.mapProblem = offer;
    return;
  }
  state.map = createInjectionCache(offer, maxNames);
  state.mapProblem = undefined;
  log.info({ revision: offer.revision, names: offer.hosts.length }, "map: loaded");
}
