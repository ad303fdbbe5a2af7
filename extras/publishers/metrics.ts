import { hashValue, MetricsRegistry } from "#lib/telemetry/metrics.ts";
import type { PublisherFacts } from "./health.ts";

interface PublisherMetrics {
  readonly registry: MetricsRegistry;
  /** Counts a publication, or a step that failed. */
  wrote(result: "ok" | "failed"): void;
}

/** `now`: milliseconds since 1970. */
export function createPublisherMetrics(
  publisher: string,
  facts: () => PublisherFacts,
  now: () => number,
): PublisherMetrics {
  const registry = new MetricsRegistry();
  const writes = registry.labelledCounter(
    "switchback_publisher_writes_total",
    "Publications of the map, and steps that failed, by result.",
  );
  registry.gauge("switchback_publisher_names", "Names that are published.", () => [
    [{ publisher }, facts().state.names],
  ]);
  registry.gauge("switchback_publisher_left_out", "Names of the map that cannot be published this way.", () => [
    [{ publisher }, facts().state.leftOut],
  ]);
  registry.gauge(
    "switchback_publisher_behind_seconds",
    "How long readers have lacked the newest map; 0: they have it.",
    () => {
      const { behindSince } = facts().state;
      return [[{ publisher }, behindSince === undefined ? 0 : Math.max(0, now() - behindSince) / 1000]];
    },
  );
  registry.gauge("switchback_publisher_problem", "1 for the reason why not everything is published, by code.", () => {
    const { state, failure, mapProblem } = facts();
    const reason = failure ?? mapProblem ?? state.problem;
    return reason === undefined ? [] : [[{ publisher, code: reason.code }, 1]];
  });
  registry.gauge(
    "switchback_publisher_stopped",
    "1 if the publisher has stopped writing, until it is disabled and enabled again.",
    () => [[{ publisher }, facts().state.stopped ?? 0]],
  );
  registry.gauge("switchback_publisher_map_hash", "Hash of the revision of the map that is published.", () => {
    const { revision } = facts().state;
    return revision === undefined ? [] : [[{ publisher }, hashValue(revision)]];
  });
  registry.gauge(
    "switchback_publisher_since_timestamp_seconds",
    "Since when something is published without a gap, seconds since 1970.",
    () => {
      const { since } = facts().state;
      return since === undefined ? [] : [[{ publisher }, since / 1000]];
    },
  );
  registry.gauge(
    "switchback_publisher_taken_back",
    "How often, of the last ten times, what was published was taken back, by field manager.",
    () => {
      const managers = Map.groupBy(facts().state.takenBack, ({ by = "unknown" }) => by);
      return [...managers].map(([by, times]) => [{ publisher, by }, times.length]);
    },
  );
  return { registry, wrote: (result) => writes.inc({ publisher, result }) };
}
