import assert from "node:assert/strict";
import { test } from "node:test";
import { hashValue } from "#lib/telemetry/metrics.ts";
import { addStateGauges, createWebhookMetrics } from "./metrics.ts";

/** The samples of gauges, by their names without the prefix. */
const GAUGES = /^switchback_webhook_((?:map|certificate)_\S+) (\S+)$/gm;

test("the state's gauges are read at each scrape", () => {
  const metrics = createWebhookMetrics();
  const state = {
    map: undefined as { revision: string; names: number } | undefined,
    mapProblem: undefined as object | undefined,
    serving: () => ({}) as { notAfter?: number; problem?: object },
  };
  addStateGauges(metrics.registry, state as never);
  const gauges = () => {
    const samples = [...metrics.registry.metrics().matchAll(GAUGES)];
    return Object.fromEntries(samples.map(([, name, value]) => [name, Number(value)]));
  };
  const nothing = { map_names: 0, map_problem: 0, certificate_expiry_timestamp_seconds: 0, certificate_problem: 0 };
  assert.deepEqual(gauges(), nothing);
  state.map = { revision: "r1", names: 7 };
  state.mapProblem = {};
  state.serving = () => ({ notAfter: 1_700_000_000_000, problem: {} });
  assert.deepEqual(gauges(), {
    map_names: 7,
    map_problem: 1,
    certificate_expiry_timestamp_seconds: 1_700_000_000,
    certificate_problem: 1,
    map_hash: hashValue("r1"),
  });
  state.map = { revision: "r2", names: 8 };
  assert.deepEqual(Object.entries(gauges()).at(-1), ["map_hash", hashValue("r2")]);
});
