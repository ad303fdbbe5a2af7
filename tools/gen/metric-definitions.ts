import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "..", "..");
const NOT_SERVED = /^(?:test|bench|release|demo)\/|\.test\.ts$|^telemetry\/metrics\.ts$/;
/** Matches a metric with its help. The name is complete, or follows the prefix of its file. */
const DEFINITION = /\b(\w+)\(\s*(?:"|`\$\{PREFIX\}|`)((?:switchback_)?[a-z_]+)["`],\s*"([^"]+)"/g;

/** A metric as a file of the product defines it. */
interface MetricDefinition {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
}

/** All metrics that the product's files define. */
export function metricDefinitions(): readonly MetricDefinition[] {
  const files = execFileSync("git", ["ls-files", "*.ts"], { cwd: ROOT, encoding: "utf8" }).trim().split("\n");
  return files
    .filter((file) => !NOT_SERVED.test(file))
    .flatMap((file) => definitionsIn(readFileSync(join(ROOT, file), "utf8")));
}

function definitionsIn(text: string): MetricDefinition[] {
  if (!text.includes("MetricsRegistry")) return [];
  const [, prefix = ""] = /(switchback_[a-z]+_)(?:"|\$\{)/.exec(text) ?? [];
  return Array.from(text.matchAll(DEFINITION), ([, by = "", name = "", help = ""]) => ({
    name: /^(?:switchback|process)_/.test(name) ? name : prefix + name,
    type: /counter/i.test(by) ? "counter" : /histogram/i.test(by) ? "histogram" : "gauge",
    help,
  }));
}
