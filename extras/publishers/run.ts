import type { Reason } from "#hostmap/types.ts";
import type { MapReader } from "#lib/documents/map-reader.ts";
import { isMap } from "#lib/documents/published-map.ts";
import { livenessOf, startHealthServer } from "#lib/http/listen.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { publisherReadiness } from "./health.ts";
import { PublisherLoop } from "./loop.ts";
import { createPublisherMetrics } from "./metrics.ts";
import type { Publisher } from "./publisher.ts";
import type { PublisherMap } from "./publisher-map.ts";
import type { PublisherStateStore } from "./publisher-state-store.ts";

interface PublisherDeps {
  readonly publisher: Publisher;
  readonly maps: MapReader<PublisherMap>;
  readonly store: Pick<PublisherStateStore, "read" | "write">;
  readonly log: Logger;
  /** Address that the health server binds. */
  readonly address: string;
  /** Tests replace these. */
  readonly healthPort?: number;
  readonly times?: typeof TIMES;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

interface RunningPublisher {
  readonly healthPort: number;
  /** Stops. The publication stays. */
  stop(): Promise<void>;
}

/** The port of health and metrics, in the publisher's own pod. */
const HEALTH_PORT = 8087;
const TIMES = {
  /** How often a publisher checks whether what it wrote is still there, even if the map does not change. */
  checkMs: 30_000,
  /** Shortest time between two publications: each makes every CoreDNS of the cluster reload. */
  minIntervalMs: 15_000,
  /** If the cluster's DNS does not answer with what was written after this long, it is taken out again. */
  answerMs: 300_000,
};

/** Runs a publisher: gives it each whole map, and serves its health and metrics. Throws `listen-failed`. */
export async function runPublisher(deps: PublisherDeps): Promise<RunningPublisher> {
  const { publisher, log, now, address, healthPort = HEALTH_PORT, times = TIMES } = deps;
  let mapProblem: Reason | undefined;
  const facts = () => ({ state: loop.state, failure: loop.failure, mapProblem });
  const metrics = createPublisherMetrics(publisher.name, facts, now);
  const loop = new PublisherLoop({
    publisher,
    store: deps.store,
    settings: { ...times, minIntervalMs: publisher.minIntervalMs ?? times.minIntervalMs },
    log,
    now,
    onWrite: metrics.wrote,
  });
  const maps = deps.maps.start((offer) => {
    if (isMap(offer)) {
      mapProblem = undefined;
      loop.offer(offer);
      return;
    }
    if (offer.text !== mapProblem?.text) log.warn({ ...offer }, "map: cannot be used");
    mapProblem = offer;
  });
  const stop = async (): Promise<void> => {
    await maps.stop();
    await loop.stop();
  };
  try {
    const health = await startHealthServer({
      live: () => livenessOf(maps.inactiveMs?.() ?? 0),
      ready: () => publisherReadiness(facts()),
      address,
      port: healthPort,
      registry: metrics.registry,
    });
    log.info({ healthPort: health.port, publisher: publisher.name }, "listening");
    return {
      healthPort: health.port,
      async stop() {
        await stop();
        await health.close();
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
