import type { Reason } from "#hostmap/types.ts";
import type { MapReader } from "#lib/documents/map-reader.ts";
import { isMap } from "#lib/documents/published-map.ts";
import { livenessOf, startHealthServer } from "#lib/http/listen.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { PublishersSettings } from "./config.ts";
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
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

interface RunningPublisher {
  readonly healthPort: number;
  /** Stops. The publication stays. */
  stop(): Promise<void>;
}

/** Runs a publisher: gives it each whole map, and serves its health and metrics. Throws `listen-failed`. */
export async function runPublisher(publishers: PublishersSettings, deps: PublisherDeps): Promise<RunningPublisher> {
  const { publisher, log, now } = deps;
  let mapProblem: Reason | undefined;
  const facts = () => ({ state: loop.state, failure: loop.failure, mapProblem });
  const metrics = createPublisherMetrics(publisher.name, facts, now);
  const loop = new PublisherLoop({
    publisher,
    store: deps.store,
    settings: {
      checkMs: publishers.checkSeconds * 1000,
      minIntervalMs: publisher.minIntervalMs ?? publishers.minIntervalSeconds * 1000,
      answerMs: publishers.answerSeconds * 1000,
    },
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
      address: publishers.address,
      port: publishers.healthPort,
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
