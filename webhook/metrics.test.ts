import assert from "node:assert/strict";
import { test } from "node:test";
import { hashValue } from "#lib/telemetry/metrics.ts";
import { addStateGauges, createWebhookMetrics } from "./metrics.ts";

const PREFIX = "switchback_webhook_";

/** Every sample of a scrape by its name without the prefix. */
async function scrape({ registry }: ReturnType<typeof createWebhookMetrics>): Promise<Record<string, number>> {
  const lines = (await registry.metrics()).split("\n").filter((line) => line.startsWith(PREFIX));
  return Object.fromEntries(
    lines.map((line) => {
      const [, sample = "", value] = /^(.*) (\S+)$/.exec(line.slice(PREFIX.length)) ?? [];
      return [sample, Number(value)];
    }),
  );
}

test("counts pods by code and opt-in, warnings by code and refusals by status, and times each answer", async () => {
  const metrics = createWebhookMetrics();
  metrics.admitted("injected", "namespace", 0.00006);
  metrics.admitted("injected", "namespace", 0.0025);
  metrics.admitted("not-opted-in", "pod", 2);
  metrics.warned("over-cap");
  metrics.refused(413);
  const bounds = [
    "0.00005",
    "0.0001",
    "0.00025",
    "0.0005",
    "0.001",
    "0.0025",
    "0.005",
    "0.01",
    "0.05",
    "0.1",
    "1",
    "+Inf",
  ];
  const counts = [0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3];
  const buckets = bounds.map((le, index) => [`admission_duration_seconds_bucket{le="${le}"}`, counts[index]]);
  assert.deepEqual(await scrape(metrics), {
    'admissions_total{code="injected",opt_in="namespace"}': 2,
    'admissions_total{code="not-opted-in",opt_in="pod"}': 1,
    ...Object.fromEntries(buckets),
    admission_duration_seconds_sum: 2.00256,
    admission_duration_seconds_count: 3,
    'warnings_total{code="over-cap"}': 1,
    'refused_total{status="413"}': 1,
  });
});

test("the state's gauges are read at each scrape", async () => {
  const metrics = createWebhookMetrics();
  const state = {
    map: undefined as { revision: string; names: number } | undefined,
    mapProblem: undefined as object | undefined,
    serving: () => ({}) as { notAfter?: number; problem?: object },
  };
  addStateGauges(metrics.registry, state as never);
  const gauges = async () => {
    const samples = Object.entries(await scrape(metrics)).filter(([name]) => /^(map|certificate)_/.test(name));
    return Object.fromEntries(samples);
  };
  const nothing = { map_names: 0, map_problem: 0, certificate_expiry_timestamp_seconds: 0, certificate_problem: 0 };
  assert.deepEqual(await gauges(), nothing);
  state.map = { revision: "r1", names: 7 };
  state.mapProblem = {};
  state.serving = () => ({ notAfter: 1_700_000_000_000, problem: {} });
  assert.deepEqual(await gauges(), {
    map_names: 7,
    map_problem: 1,
    certificate_expiry_timestamp_seconds: 1_700_000_000,
    certificate_problem: 1,
    map_hash: hashValue("r1"),
  });
  state.map = { revision: "r2", names: 8 };
  assert.deepEqual(Object.entries(await gauges()).at(-1), ["map_hash", hashValue("r2")]);
});
