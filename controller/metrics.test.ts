import assert from "node:assert/strict";
import { test } from "node:test";
import { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import { addStatusGauges, publicationMetrics } from "./metrics.ts";
import type { NameStatus, StatusDocument } from "./status.ts";

function name(code?: string): NameStatus {
  const reason = code === undefined ? undefined : { code, text: "why" };
  return {
    name: "a.example.com",
    from: { kind: "Ingress", namespace: "shop", name: "web" },
    since: "2026-01-01T00:00:00Z",
    target: "t",
    addresses: [],
    reason,
  };
}

const BASE: StatusDocument = {
  leader: false,
  identity: "controller-0",
  synced: true,
  revision: "abc",
  sources: [{ name: "ingresses", synced: true, problems: [] }],
  targets: [],
  hold: undefined,
  warnings: [],
  leaving: [],
  names: [],
};

/** The samples of a scrape, by name and labels. */
function samples(text: string): Record<string, number> {
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return Object.fromEntries(
    lines.map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.split(" ").at(-1))]),
  );
}

test("all gauges of a scrape come from the same status document", async () => {
  let status: StatusDocument = {
    ...BASE,
    leader: true,
    names: [name(), name(), name("conflict")],
    sources: [{ name: "ingresses", synced: false, problems: [{ place: "p", code: "c", text: "t" }] }],
    hold: { since: 0, until: 1, names: 7, of: 12 },
  };
  const registry = new MetricsRegistry();
  addStatusGauges(registry, () => status);
  assert.deepEqual(only(samples(await registry.metrics())), {
    switchback_controller_leader: 1,
    'switchback_controller_names{outcome="mapped"}': 2,
    'switchback_controller_names{outcome="conflict"}': 1,
    'switchback_controller_source_synced{source="ingresses"}': 0,
    'switchback_controller_source_problems{source="ingresses"}': 1,
    switchback_controller_held_names: 7,
  });
  status = { ...BASE, names: [name("no-target")] };
  assert.deepEqual(only(samples(await registry.metrics())), {
    switchback_controller_leader: 0,
    'switchback_controller_names{outcome="no-target"}': 1,
    'switchback_controller_source_synced{source="ingresses"}': 1,
    'switchback_controller_source_problems{source="ingresses"}': 0,
    switchback_controller_held_names: 0,
  });
});

/** Only the gauges. The reconciler changes the counters and the histogram. */
function only(all: Record<string, number>): Record<string, number> {
  return Object.fromEntries(Object.entries(all).filter(([key]) => !/_total|_lag_/.test(key)));
}

test("names are counted by DNS decision where they are resolved", async () => {
  let dns: Record<string, number> | undefined = { verified: 5, "dns-absent": 1 };
  const registry = new MetricsRegistry();
  addStatusGauges(registry, () => ({ ...BASE, dns }));
  const decisions = async () =>
    Object.entries(samples(await registry.metrics())).filter(([key]) => key.startsWith("switchback_controller_dns"));
  assert.deepEqual(await decisions(), [
    ['switchback_controller_dns_names{decision="verified"}', 5],
    ['switchback_controller_dns_names{decision="dns-absent"}', 1],
  ]);
  dns = { verified: 6, "dns-absent": 0 };
  assert.deepEqual(
    (await decisions()).map(([, count]) => count),
    [6, 0],
  );
});

test("each count of the reconciler has its own metric", async () => {
  const registry = new MetricsRegistry();
  const metrics = publicationMetrics(registry);
  metrics.publications.inc();
  metrics.publishedBytes.inc(5_000);
  metrics.failures.inc(2);
  metrics.lag.observe(0.02);
  const all = samples(await registry.metrics());
  const counted = Object.fromEntries(Object.entries(all).filter(([key]) => /_total|_lag_/.test(key)));
  const bounds = ["0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf"];
  const buckets = bounds.map((le, index) => [
    `switchback_controller_publish_lag_seconds_bucket{le="${le}"}`,
    index < 2 ? 0 : 1,
  ]);
  assert.deepEqual(counted, {
    switchback_controller_publications_total: 1,
    switchback_controller_published_bytes_total: 5_000,
    switchback_controller_publish_failures_total: 2,
    ...Object.fromEntries(buckets),
    switchback_controller_publish_lag_seconds_sum: 0.02,
    switchback_controller_publish_lag_seconds_count: 1,
  });
});
