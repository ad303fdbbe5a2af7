import { countBy, type MetricsRegistry } from "#lib/telemetry/metrics.ts";
import type { StatusDocument } from "./status.ts";

const PREFIX = "switchback_controller_";
const LAG_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** Adds the metrics of the status, which is read once per scrape, and the counter of claims that are not kept. */
export function addStatusGauges(registry: MetricsRegistry, status: () => StatusDocument, leftOut: () => number): void {
  const gauge: MetricsRegistry["gauge"] = (name, ...rest) => registry.gauge(`${PREFIX}${name}`, ...rest);
  let document: StatusDocument;
  gauge("leader", "1 on the leading replica", () => {
    // A scrape reads the gauges in the order of their creation, so the others use this document.
    document = status();
    return document.leader ? 1 : 0;
  });
  gauge("names", "Claimed names by outcome: mapped, or the reason code of the refusal", () =>
    countBy("outcome", document.names, ({ reason }) => reason?.code ?? "mapped"),
  );
  gauge("source_synced", "1 once a source has given its full view, by source", () =>
    document.sources.map(({ name, synced }) => [{ source: name }, synced ? 1 : 0]),
  );
  gauge("source_problems", "Objects that could not be read, by source", () =>
    document.sources.map(({ name, problems }) => [{ source: name }, problems.length]),
  );
  gauge("held_names", "Names whose removal is held back until its time runs out", () => document.hold?.names ?? 0);
  registry.counterOf(
    `${PREFIX}claims_left_out_total`,
    "Claims that were left out when their objects were read, because there are too many (too-many-claims)",
    leftOut,
  );
}

export type PublicationMetrics = ReturnType<typeof publicationMetrics>;

/** Registers the metrics of the loop: it counts the publications of the map. */
export function publicationMetrics(registry: MetricsRegistry) {
  const counter = (name: string, help: string) => registry.counter(`${PREFIX}${name}`, help);
  const publications = counter("publications_total", "Publications of the map");
  const publishedBytes = counter("published_bytes_total", "Bytes of the map written");
  const failures = counter("publish_failures_total", "Publications that failed; each is tried again");
  const lag = registry.histogram(
    `${PREFIX}publish_lag_seconds`,
    "From the first change that a publication carries to the map being written",
    LAG_BUCKETS,
  );
  return {
    /** `lagMs`: milliseconds since the first change that the publication carries. */
    published(bytes: number, lagMs: number): void {
      publications.inc();
      publishedBytes.inc(bytes);
      lag.observe(lagMs / 1000);
    },
    failed: () => failures.inc(),
  };
}
