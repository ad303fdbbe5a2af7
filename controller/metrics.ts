import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { StatusDocument } from "./status.ts";

/** The controller's metrics; `status` is read at each scrape. */
export function createControllerMetrics(status: () => StatusDocument) {
  const registry = new Registry();
  const registers = [registry];
  const leader = new Gauge({
    name: "switchback_controller_leader",
    help: "1 on the leading replica",
    registers,
    // Filled here, since a scrape reads the gauges in the order of their creation.
    collect: () => fill(status()),
  });
  const names = new Gauge({
    name: "switchback_controller_names",
    help: "Claimed names by outcome: mapped, or the reason code of the refusal",
    labelNames: ["outcome"],
    registers,
  });
  const synced = new Gauge({
    name: "switchback_controller_source_synced",
    help: "1 when a source has given its full view",
    labelNames: ["source"],
    registers,
  });
  const problems = new Gauge({
    name: "switchback_controller_source_problems",
    help: "Problems of a source that need attention",
    labelNames: ["source"],
    registers,
  });
  const held = new Gauge({
    name: "switchback_controller_held_names",
    help: "Names whose removal is held back until it is confirmed or its time runs out",
    registers,
  });

  const dns = dnsGauge(registers);

  function fill(document: StatusDocument): void {
    leader.set(document.leader ? 1 : 0);
    held.set(document.hold?.names ?? 0);
    names.reset();
    for (const [verdict, count] of Object.entries(document.dns ?? {})) dns.set({ verdict }, count);
    for (const { reason } of document.names) names.inc({ outcome: reason?.code ?? "mapped" });
    for (const source of document.sources) {
      synced.set({ source: source.name }, source.synced ? 1 : 0);
      problems.set({ source: source.name }, source.problems.length);
    }
  }

  return {
    registry,
    publications: new Counter({
      name: "switchback_controller_publications_total",
      help: "Publications of the map",
      registers,
    }),
    publishedBytes: new Counter({
      name: "switchback_controller_published_bytes_total",
      help: "Bytes of shards and index written",
      registers,
    }),
    failures: new Counter({
      name: "switchback_controller_publish_failures_total",
      help: "Publications that failed",
      registers,
    }),
    lag: new Histogram({
      name: "switchback_controller_publish_lag_seconds",
      help: "From the first change that a publication carries to the index being written",
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
      registers,
    }),
  };
}

function dnsGauge(registers: Registry[]) {
  return new Gauge({
    name: "switchback_controller_dns_names",
    help: "Names by DNS verdict: verified, unknown, dns-elsewhere, dns-absent",
    labelNames: ["verdict"],
    registers,
  });
}
