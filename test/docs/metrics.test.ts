import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

const ROOT = join(import.meta.dirname, "..", "..");
const NOT_SERVED = /^(?:test|bench|release|demo)\/|\.test\.ts$|^telemetry\/metrics\.ts$/;
/** A metric with its help: the name whole, or behind the prefix of its file. */
const DEFINITION = /\b\w+\(\s*(?:"|`\$\{PREFIX\}|`)((?:switchback_)?[a-z_]+)["`],\s*"[^"]+"/g;
const PAGE = readFileSync(join(ROOT, "docs", "metrics.md"), "utf8");
const CHART_FILES = join(ROOT, "manifests", "chart", "files");
const ALERTS =
  readFileSync(join(ROOT, "docs", "alerts.md"), "utf8") + readFileSync(join(CHART_FILES, "alerts.yaml"), "utf8");
const GRAFANA = readFileSync(join(CHART_FILES, "grafana-dashboard.json"), "utf8");

/** The metrics that files of the product define. */
function defined(): Set<string> {
  const files = execFileSync("git", ["ls-files", "*.ts"], { cwd: ROOT, encoding: "utf8" }).trim().split("\n");
  const found = new Set<string>();
  for (const file of files.filter((each) => !NOT_SERVED.test(each))) {
    const text = readFileSync(join(ROOT, file), "utf8");
    if (!text.includes("MetricsRegistry")) continue;
    const [, prefix = ""] = /(switchback_[a-z]+_)(?:"|\$\{)/.exec(text) ?? [];
    for (const [, name = ""] of text.matchAll(DEFINITION))
      found.add(/^(?:switchback|process)_/.test(name) ? name : prefix + name);
  }
  return found;
}

const rows = [...PAGE.matchAll(/^\| `((?:switchback|process)_[a-z_]+)` \|/gm)].map(([, name = ""]) => name);

test("every metric has a row in docs/metrics.md, and every row a metric", () => {
  const metrics = [...defined()].sort();
  assert.ok(metrics.length > 40, metrics.join(" "));
  assert.deepEqual(rows.toSorted(), metrics);
});

test("what the pages, the alerts and the Grafana dashboard watch for is there", () => {
  const named = new Set(
    [
      ...`${PAGE}${ALERTS}${GRAFANA}`.matchAll(
        /\bswitchback_(?:controller|webhook|proxy|agent|dns|cert\w*|cabundle)_[a-z_]+/g,
      ),
    ].map(([name]) => name.replace(/_bucket$/, "")),
  );
  assert.deepEqual(
    [...named].filter((name) => !rows.includes(name)),
    [],
  );
});
