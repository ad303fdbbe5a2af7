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
