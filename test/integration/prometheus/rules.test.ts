import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { parse } from "yaml";
import { whyNoDebian } from "../../cluster/debian.ts";
import { ALERTS, promtool } from "./prometheus.ts";

// The chart's alerts without a cluster: they do what test/integration/prometheus/alerts.yaml says, and docs/alerts.md
// has a section for each.

const PAGE = readFileSync(join(import.meta.dirname, "..", "..", "..", "docs", "alerts.md"), "utf8");
const reason = whyNoDebian();
const skip = reason === undefined ? {} : { skip: reason };

interface Rule {
  readonly alert: string;
  readonly labels: { readonly severity: string };
}
const { groups } = parse(readFileSync(ALERTS, "utf8")) as { groups: Array<{ rules: Rule[] }> };
const rules = groups.flatMap((group) => group.rules);

test("each alert stays silent before its time, fires and resolves", skip, async () => {
  const { code, output } = await promtool(["test", "rules", "alerts.yaml"], { folder: import.meta.dirname });
  assert.equal(code, 0, output);
  const cases = parse(readFileSync(join(import.meta.dirname, "alerts.yaml"), "utf8")) as {
    tests: Array<{ alert_rule_test: Array<{ alertname: string; exp_alerts: unknown[] }> }>;
  };
  const fires = cases.tests.map((each) => each.alert_rule_test.map(({ exp_alerts }) => exp_alerts.length).join(""));
  const seen = cases.tests
    .filter((_, index) => /^0+10$/.test(fires[index] ?? ""))
    .map((each) => each.alert_rule_test[0]?.alertname);
  assert.deepEqual(new Set(seen), new Set(rules.map(({ alert }) => alert)));
});

test("each alert has a section with severity, cause, checks and steps, and each section has an alert", () => {
  const sections = PAGE.split(/^## /m)
    .slice(1)
    .filter((section) => section.startsWith("Switchback"));
  assert.deepEqual(
    sections.map((section) => section.slice(0, section.indexOf("\n"))),
    rules.map(({ alert }) => alert),
  );
  for (const [index, section] of sections.entries()) {
    const { alert, labels } = rules[index] ?? assert.fail();
    assert.match(section, new RegExp(`^${alert}\n\\*\\*${labels.severity}\\.\\*\\* `), alert);
    for (const part of ["Cause", "Look at", "Do"])
      assert.match(section, new RegExp(`^\\*\\*${part}:\\*\\*`, "m"), alert);
  }
});
