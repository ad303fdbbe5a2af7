import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { metricDefinitions } from "#tools/gen/metric-definitions.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const PAGE = readFileSync(join(ROOT, "docs", "metrics.md"), "utf8");
const CHART_FILES = join(ROOT, "manifests", "chart", "files");
const ALERTS =
  readFileSync(join(ROOT, "docs", "alerts.md"), "utf8") + readFileSync(join(CHART_FILES, "alerts.yaml"), "utf8");
const GRAFANA = readFileSync(join(CHART_FILES, "grafana-dashboard.json"), "utf8");

const rows = [...PAGE.matchAll(/^\| `((?:switchback|process)_[a-z_]+)` \|/gm)].map(([, name = ""]) => name);

test("every metric has a row in docs/metrics.md, and every row has a metric", () => {
  const metrics = metricDefinitions()
    .map(({ name }) => name)
    .sort();
  assert.ok(metrics.length > 40, metrics.join(" "));
  assert.deepEqual(rows.toSorted(), metrics);
});

test("each row explains its metric", () => {
  assert.doesNotMatch(PAGE, /^\| `(?:switchback|process)_.*\|\s*\|$/m);
});

test("every metric that the pages, the alerts and the Grafana dashboard use exists", () => {
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
