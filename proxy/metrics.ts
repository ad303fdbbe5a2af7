import { Counter, Gauge, type Metric, type MetricValueWithName, Registry } from "prom-client";
import type { RelayEngine } from "./engine.ts";
import { CONNECT_BUCKETS, type TargetStats } from "./target-stats.ts";
import type { UpstreamState } from "./upstream.ts";

interface MetricSources {
  readonly engine: Pick<RelayEngine, "stats" | "listeners">;
  readonly upstreams: () => readonly UpstreamState[];
  readonly draining: () => boolean;
  readonly maxConnections: number;
}

type Labels = Readonly<Record<string, string | number>>;
/** The series of one target in a metric. */
type Reader = (stats: Readonly<TargetStats>) => readonly (readonly [Labels, number])[];

/** Creates a registry with the proxy's metrics. Values are read from the engine's counters on each scrape. */
export function createProxyMetrics(sources: MetricSources): Registry {
  const registry = new Registry();
  const registers = [registry];
  addCounters(registry, sources);
  new Gauge({
    name: "switchback_proxy_connections_active",
    help: "Open client connections.",
    labelNames: ["target"],
    registers,
    collect() {
      this.reset();
      for (const [target, stats] of sources.engine.stats()) this.set({ target }, stats.active);
    },
  });
  // The registry needs only these members; its type names prom-client's classes.
  registry.registerMetric(connectHistogram(sources.engine) as unknown as Metric);
  addStateGauges(registry, sources);
  return registry;
}

function addCounters(registry: Registry, { engine }: MetricSources): void {
  const counter = (name: string, help: string, labels: readonly string[], read: Reader): void => {
    new Counter({
      name: `switchback_proxy_${name}`,
      help,
      labelNames: ["target", ...labels],
      registers: [registry],
      collect() {
        this.reset();
        for (const [target, stats] of engine.stats()) {
          for (const [values, count] of read(stats)) this.inc({ target, ...values }, count);
        }
      },
    });
  };
  counter("connections_total", "Clients taken in.", [], (stats) => [[{}, stats.accepted]]);
  counter("bytes_total", "Payload bytes read, by the side that sent them.", ["from"], (stats) => [
    [{ from: "client" }, stats.clientBytes],
    [{ from: "upstream" }, stats.upstreamBytes],
  ]);
  counter(
    "refused_total",
    "Clients turned away with a reset, by cause.",
    ["cause"],
    byCause((stats) => stats.refused),
  );
  counter(
    "cut_total",
    "Connections that a reset or a timeout ended, by cause.",
    ["cause"],
    byCause((stats) => stats.cut),
  );
  counter(
    "dial_errors_total",
    "Upstream addresses not reached, by cause.",
    ["cause"],
    byCause((stats) => stats.dialErrors),
  );
}

function byCause(pick: (stats: Readonly<TargetStats>) => Readonly<Record<string, number>>): Reader {
  return (stats) => Object.entries(pick(stats)).map(([cause, count]) => [{ cause }, count] as const);
}

function addStateGauges(registry: Registry, { engine, upstreams, draining, maxConnections }: MetricSources): void {
  const gauge = (name: string, help: string, labelNames: readonly string[], collect: (metric: Gauge) => void): void => {
    new Gauge({
      name: `switchback_proxy_${name}`,
      help,
      labelNames,
      registers: [registry],
      collect() {
        this.reset();
        collect(this);
      },
    });
  };
  gauge("listener_bound", "1: the listener accepts clients.", ["listener"], (metric) => {
    for (const { name, bound } of engine.listeners()) metric.set({ listener: name }, Number(bound));
  });
  gauge(
    "upstream_ok",
    "1: the last dial connected, 0: it failed; absent until the first.",
    ["target", "port"],
    (metric) => {
      for (const { target, port, phase } of upstreams()) {
        if (phase.state !== "unknown") metric.set({ target, port }, Number(phase.state === "ok"));
      }
    },
  );
  gauge("upstream_addresses", "Addresses of the upstream that are in use.", ["target", "port"], (metric) => {
    for (const { target, port, addresses } of upstreams()) metric.set({ target, port }, addresses.length);
  });
  gauge("connections_limit", "Open connections at most, as in force.", [], (metric) => metric.set(maxConnections));
  gauge("draining", "1: told to stop.", [], (metric) => metric.set(Number(draining())));
}

const CONNECT_NAME = "switchback_proxy_connect_seconds";

/** A histogram over the engine's buckets: prom-client's Histogram would need an observation per connect. */
function connectHistogram(engine: Pick<RelayEngine, "stats">): { name: string; get(): Promise<object> } {
  return {
    name: CONNECT_NAME,
    get: async () => ({
      name: CONNECT_NAME,
      help: "Time to connect to the upstream.",
      type: "histogram",
      aggregator: "sum",
      values: [...engine.stats()].flatMap(([target, stats]) => connectSeries(target, stats)),
    }),
  };
}

function connectSeries(target: string, stats: Readonly<TargetStats>): MetricValueWithName<string>[] {
  let count = 0;
  const buckets = stats.connectBuckets.map((inBucket, index) => {
    count += inBucket;
    const le = CONNECT_BUCKETS[index] ?? "+Inf";
    return { metricName: `${CONNECT_NAME}_bucket`, labels: { target, le }, value: count };
  });
  return [
    ...buckets,
    { metricName: `${CONNECT_NAME}_sum`, labels: { target }, value: stats.connectSecondsSum },
    { metricName: `${CONNECT_NAME}_count`, labels: { target }, value: count },
  ];
}
