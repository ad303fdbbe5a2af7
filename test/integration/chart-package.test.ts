import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { parse } from "yaml";
import { valuesSchema } from "#tools/gen/schemas.ts";
import { binary } from "../cluster/binaries.ts";

// The chart as it is published in a registry.

const TOP = join(import.meta.dirname, "..", "..");
const CHART = join(TOP, "manifests/chart");
const folder = mkdtempSync(join(tmpdir(), "switchback-chart-"));
after(() => rmSync(folder, { recursive: true }));
const helm = await binary("helm");

function run(command: string, ...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(command, args, { encoding: "utf8" });
  assert.equal(status, 0, stdout + stderr);
  return stdout;
}

test("has license, readme, schema and values, alerts and dashboard, and nothing but what Helm reads", () => {
  const { version } = parse(readFileSync(join(CHART, "Chart.yaml"), "utf8"));
  run(helm, "package", CHART, "--destination", folder);
  const names = run("tar", "--list", "--file", join(folder, `switchback-${version}.tgz`))
    .trim()
    .split("\n");
  const others = names.filter((name) => !name.startsWith("switchback/templates/")).sort();
  assert.deepEqual(
    others,
    [
      ".helmignore",
      "Chart.yaml",
      "LICENSE",
      "README.md",
      "files/alerts.yaml",
      "files/grafana-dashboard.json",
      "values.schema.json",
      "values.yaml",
    ].map((name) => `switchback/${name}`),
  );
  assert.equal(readFileSync(join(CHART, "LICENSE"), "utf8"), readFileSync(join(TOP, "LICENSE"), "utf8"));
});

test("Helm's linter reports nothing, not even that an icon is recommended", () => {
  const [, ...lines] = run(helm, "lint", "--strict", CHART).trim().split("\n");
  assert.deepEqual(lines.filter(Boolean), ["1 chart(s) linted, 0 chart(s) failed"]);
});

test("its page names every value: pod values once, the values of each component, and the configuration", () => {
  const page = readFileSync(join(CHART, "README.md"), "utf8");
  const named = new Set([...page.matchAll(/^\| `([^`]+)` \|/gm)].map(([, path]) => path));
  for (const path of ["pods.extraEnv", "webhook.hostNetwork", "agent.seLinuxOptions", "config.log.level"])
    assert.ok(named.has(path), path);
  const sections = Object.keys(valuesSchema.entries).filter((key) => key !== "enabled");
  const missing = sections.filter((key) => ![...named].some((path) => path === key || path?.startsWith(`${key}.`)));
  assert.deepEqual(missing, []);
});
