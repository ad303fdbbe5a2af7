import { hashValue, MetricsRegistry } from "#lib/telemetry/metrics.ts";
import type { DnsState } from "./health.ts";

/** The sidecar's metrics. CoreDNS itself has the metrics of look-ups. */
interface DnsMetrics {
  readonly registry: MetricsRegistry;
  /** Counts a write of the files, by result. */
  wrote(result: "ok" | "failed"): void;
}

export function createDnsMetrics(state: Readonly<DnsState>): DnsMetrics {
  const registry = new MetricsRegistry();
  const writes = registry.labelledCounter("switchback_dns_writes_total", "Writes of CoreDNS' files, by result.");
  registry.gauge("switchback_dns_map_names", "Names in CoreDNS' files.", () => state.written?.names ?? 0);
  registry.gauge(
    "switchback_dns_map_problem",
    "1 while the newest map is not in CoreDNS' files; the one before is answered.",
    () => (state.problem ? 1 : 0),
  );
  registry.gauge(
    "switchback_dns_left_out",
    "Names and wildcards of the map that are not in CoreDNS' files.",
    () => state.leftOut?.count ?? 0,
  );
  registry.gauge("switchback_dns_map_hash", "Hash of the revision of the map in CoreDNS' files.", () =>
    state.written === undefined ? [] : [[{}, hashValue(state.written.revision)]],
  );
  return { registry, wrote: (result) => writes.inc({ result }) };
}
