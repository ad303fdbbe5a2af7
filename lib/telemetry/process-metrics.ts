import { readFileSync } from "node:fs";
import { MetricsRegistry } from "./metrics.ts";

/** Metrics that every component serves beside its own. The names are those that Prometheus client libraries use. */
export function processMetrics(): MetricsRegistry {
  const registry = new MetricsRegistry();
  const labels = { version: ownVersion(), node: process.versions.node };
  const startSeconds = Date.now() / 1000 - process.uptime();
  registry.gauge("switchback_build_info", "1 for the version of Switchback and of the Node that runs it.", () => [
    [labels, 1],
  ]);
  registry.counterOf("process_cpu_seconds_total", "CPU time of the process, user and system.", () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1_000_000;
  });
  registry.gauge("process_resident_memory_bytes", "Resident memory of the process.", () => process.memoryUsage.rss());
  registry.gauge("process_start_time_seconds", "When the process started, Unix seconds.", () => startSeconds);
  return registry;
}

/** Reads our own version. It works in the image's bundle too, which is in a folder of the same depth. */
function ownVersion(): string {
  try {
    const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
    return String(version);
  } catch {
    return "unknown";
  }
}
