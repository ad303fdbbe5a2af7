import assert from "node:assert/strict";
import { test } from "node:test";
import { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import type { CertStatus } from "./manager.ts";
import { registerCertMetrics } from "./metrics.ts";

const STATUS: CertStatus = {
  mode: "self-signed",
  state: { code: "steady", text: "t" },
  bundle: "current",
  caNotAfter: 2_000_000_000_000,
  leafNotAfter: 1_900_000_000_000,
  nextStepAt: undefined,
  bundleRestored: 3,
  lastError: { text: "t", at: 0 },
};

/** The samples of each scrape, without comments. */
async function scrape(...statuses: (CertStatus | undefined)[]): Promise<string[][]> {
  const registry = new MetricsRegistry();
  let current: CertStatus | undefined;
  registerCertMetrics(registry, () => current);
  const scrapes: string[][] = [];
  for (const status of statuses) {
    current = status;
    const text = await registry.metrics();
    scrapes.push(text.split("\n").filter((line) => line !== "" && !line.startsWith("#")));
  }
  return scrapes;
}

test("the leader reports expiry in seconds, the state, whether it fails, and what was restored", async () => {
  const samples = [
    'switchback_certificate_expiry_timestamp_seconds{certificate="ca"} 2000000000',
    'switchback_certificate_expiry_timestamp_seconds{certificate="serving"} 1900000000',
    'switchback_certificates_state{code="steady"} 1',
    "switchback_certificates_failing 1",
    "switchback_cabundle_restored_total 3",
  ];
  assert.deepEqual(await scrape(STATUS, STATUS), [samples, samples]);
});

test("unknown values, and values that are no longer known, are not reported", async () => {
  const state = { code: "starting", text: "t" };
  const unknown = { ...STATUS, state, caNotAfter: undefined, leafNotAfter: undefined, lastError: undefined };
  const idle = ["switchback_certificates_failing 0", "switchback_cabundle_restored_total 0"];
  assert.deepEqual(await scrape(STATUS, unknown, undefined).then((scrapes) => scrapes.slice(1)), [
    ['switchback_certificates_state{code="starting"} 1', idle[0], "switchback_cabundle_restored_total 3"],
    idle,
  ]);
});
