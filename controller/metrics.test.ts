import assert from "node:assert/strict";
import { test } from "node:test";
import { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import { addStatusGauges } from "./metrics.ts";
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
