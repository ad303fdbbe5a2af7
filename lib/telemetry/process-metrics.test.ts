import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { processMetrics } from "./process-metrics.ts";

test("a process reports its version, its start time and its resource use", () => {
  const started = Date.now() / 1000 - process.uptime();
  const families = new Map(
    processMetrics()
      .families()
      .map((family) => [family.name, family]),
  );
  const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
  assert.deepEqual(families.get("switchback_build_info")?.samples, [
    { suffix: "", labels: { version, node: process.versions.node }, value: 1 },
  ]);
  const value = (name: string) => families.get(name)?.samples[0]?.value ?? Number.NaN;
  assert.ok(Math.abs(value("process_start_time_seconds") - started) < 1);
  assert.ok(value("process_resident_memory_bytes") > 10_000_000);
  assert.ok(value("process_cpu_seconds_total") > 0 && value("process_cpu_seconds_total") < 3600);
});
