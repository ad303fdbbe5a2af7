import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { processMetrics } from "./process-metrics.ts";

test("a process reports its version, its start time and its resource use", () => {
  const started = Date.now() / 1000 - process.uptime();
  const text = processMetrics().metrics();
  const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
  assert.ok(text.includes(`switchback_build_info{version="${version}",node="${process.versions.node}"} 1\n`));
  const value = (name: string) => Number(new RegExp(`^${name} (.*)$`, "m").exec(text)?.[1]);
  assert.ok(Math.abs(value("process_start_time_seconds") - started) < 1);
  assert.ok(value("process_resident_memory_bytes") > 10_000_000);
  assert.ok(value("process_cpu_seconds_total") > 0 && value("process_cpu_seconds_total") < 3600);
});
