import { hashValue, MetricsRegistry } from "#lib/telemetry/metrics.ts";
import type { WebhookState } from "./health.ts";
import type { OptIn } from "./injection-decision.ts";

/** The webhook's metrics, in one registry. */
export type WebhookMetrics = ReturnType<typeof createWebhookMetrics>;

/** 50 µs to 1 s: an admission takes far less than a millisecond, and the API server waits for two seconds. */
const BUCKETS = [0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 1];

export function createWebhookMetrics(registry = new MetricsRegistry()) {
  const counter = (name: string, help: string) => registry.labelledCounter(`switchback_webhook_${name}`, help);
  const admissions = counter("admissions_total", "Pods answered, by reason code and by what opted them in.");
  const duration = registry.histogram(
    "switchback_webhook_admission_duration_seconds",
    "From the last byte of a review to its answer.",
    BUCKETS,
  );
  const warnings = counter("warnings_total", "Warnings on admitted pods, by code.");
  const refusals = counter("refused_total", "Refused requests, by HTTP status.");
  return {
    registry,
    /** Records the answer about one pod; `seconds` is the time from the review's last byte to the answer. */
    admitted(code: string, optIn: OptIn, seconds: number): void {
      admissions.inc({ code, opt_in: optIn });
      duration.observe(seconds);
    },
    /** Counts a pod that was admitted with a warning of this code. */
    warned: (code: string): void => warnings.inc({ code }),
    /** Counts a refused request. */
    refused: (status: number): void => refusals.inc({ status }),
  };
}

/** Adds gauges of the webhook's state, which are read at each scrape. */
export function addStateGauges(registry: MetricsRegistry, state: Readonly<WebhookState>): void {
  const gauge = (name: string, ...rest: [help: string, collect: Parameters<MetricsRegistry["gauge"]>[2]]) =>
    registry.gauge(`switchback_webhook_${name}`, ...rest);
  gauge("map_names", "Names in the loaded map.", () => state.map?.names ?? 0);
  gauge("map_problem", "1 while the newest map cannot be used; the one before stays in use.", () =>
    state.mapProblem ? 1 : 0,
  );
  gauge(
    "certificate_expiry_timestamp_seconds",
    "Expiry time of the serving certificate; 0 if no certificate is loaded.",
    () => (state.serving().notAfter ?? 0) / 1000,
  );
  gauge(
    "certificate_problem",
    "1 while the newest serving certificate cannot be used; the one before is served.",
    () => (state.serving().problem ? 1 : 0),
  );
  gauge("map_hash", "Hash of the revision of the map that is loaded.", () =>
    state.map === undefined ? [] : [[{}, hashValue(state.map.revision)]],
  );
}
