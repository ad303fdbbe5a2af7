import { type Labels, MetricsRegistry, type Sample } from "#lib/telemetry/metrics.ts";
import type { RelayEngine } from "./engine.ts";
import { CONNECT_BUCKETS, type TargetStats } from "./target-stats.ts";
import type { UpstreamState } from "./upstream.ts";

interface MetricSources {
  readonly engine: Pick<RelayEngine, "stats" | "listeners">;
  readonly upstreams: () => readonly UpstreamState[];
  readonly draining: () => boolean;
  readonly maxConnections: number;
}

/** The series of one target in a metric. */
type Reader = (stats: Readonly<TargetStats>) => readonly Sample[];

/** Creates a registry with the proxy's metrics. Each scrape reads the engine's counters. */
export function createProxyMetrics(sources: MetricSources): MetricsRegistry {
  const { engine } = sources;
  const registry = new MetricsRegistry();
  addCounters(registry, sources);
  registry.gauge("switchback_proxy_connections_active", "Open client connections, by target.", () =>
    byTarget(engine, ({ active }) => [[{}, active]]),
  );
  registry.histogramOf(
    "switchback_proxy_connect_seconds",
    "Time to connect to the upstream, by target.",
    CONNECT_BUCKETS,
    () =>
      [...engine.stats()].map(([target, { connectBuckets, connectSecondsSum }]) => ({
        labels: { target },
        counts: connectBuckets,
        sum: connectSecondsSum,
      })),
  );
  addStateGauges(registry, sources);
  return registry;
}

function byTarget(engine: MetricSources["engine"], read: Reader): Sample[] {
  return [...engine.stats()].flatMap(([target, stats]) =>
    read(stats).map(([labels, value]) => [{ target, ...labels }, value] as const),
  );
}

function addCounters(registry: MetricsRegistry, { engine }: MetricSources): void {
  const counter = (name: string, help: string, read: Reader): void =>
    registry.counterOf(`switchback_proxy_${name}`, help, () => byTarget(engine, read));
  counter("connections_total", "Accepted clients, by target.", (stats) => [[{}, stats.accepted]]);
  counter("bytes_total", "Payload bytes read, by target and by the side that sent them.", (stats) => [
    [{ from: "client" }, stats.clientBytes],
    [{ from: "upstream" }, stats.upstreamBytes],
  ]);
  counter(
    "refused_total",
    "Clients that were reset instead of relayed, by target and cause.",
    byCause((stats) => stats.refused),
  );
  counter(
    "cut_total",
    "Connections that a reset or a timeout ended, by target and cause.",
    byCause((stats) => stats.cut),
  );
  counter(
    "dial_errors_total",
    "Failed dials of upstream addresses, by target and cause.",
    byCause((stats) => stats.dialErrors),
  );
}

function byCause(pick: (stats: Readonly<TargetStats>) => Readonly<Record<string, number>>): Reader {
  return (stats) => Object.entries(pick(stats)).map(([cause, count]) => [{ cause }, count] as const);
}

function addStateGauges(registry: MetricsRegistry, sources: MetricSources): void {
  const { engine, upstreams, draining, maxConnections } = sources;
  const gauge = (name: string, help: string, collect: () => number | Sample[]): void =>
    registry.gauge(`switchback_proxy_${name}`, help, collect);
  const byPort = (read: (upstream: UpstreamState) => number | undefined): Sample[] =>
    upstreams().flatMap((upstream) => {
      const value = read(upstream);
      const labels: Labels = { target: upstream.target, port: upstream.port };
      return value === undefined ? [] : [[labels, value] as const];
    });
  gauge("listener_bound", "1 if the listener accepts clients, by listener.", () =>
    engine.listeners().map(({ name, bound }) => [{ listener: name }, Number(bound)]),
  );
  gauge(
    "upstream_ok",
    "1 if the last dial connected, 0 if it failed, by target and port. Missing before the first dial.",
    () => byPort(({ phase }) => (phase.state === "unknown" ? undefined : Number(phase.state === "ok"))),
  );
  gauge("upstream_addresses", "Addresses of the upstream that are in use, by target and port.", () =>
    byPort(({ addresses }) => addresses.length),
  );
  gauge(
    "connections_limit",
    "Maximum number of open connections. The limit of open files may make it lower than the configuration.",
    () => maxConnections,
  );
  gauge("draining", "1 after SIGTERM.", () => Number(draining()));
}
