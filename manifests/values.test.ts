import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { parse } from "yaml";
import { parseConfig } from "#lib/config/parse.ts";
import { validate } from "#lib/errors/validation.ts";
import { sections, valuesSchema } from "#tools/gen/schemas.ts";

const read = (path: string) => readFileSync(new URL(path, import.meta.url), "utf8");
const values = parse(read("chart/values.yaml"));

test("values.yaml fits the schema", () => {
  assert.deepEqual(validate(valuesSchema, values).flaws, []);
});

test("the config in values.yaml repeats defaults and does not change them", () => {
  assert.deepEqual(parseConfig(values.config, sections), parseConfig({}, sections));
});

test("values.yaml has every section of the schema with its keys", () => {
  const optional = ["config", "enabled"];
  const names = Object.keys(valuesSchema.entries).filter((key) => !optional.includes(key));
  assert.deepEqual(
    names.toSorted(),
    Object.keys(values)
      .filter((key) => key !== "config")
      .toSorted(),
  );
  const { pods, image, networkPolicy, serviceMonitor, admission } = valuesSchema.entries;
  const shown = { pods, image, networkPolicy, serviceMonitor, admission };
  for (const [name, section] of Object.entries(shown)) {
    assert.deepEqual(Object.keys(values[name]).toSorted(), Object.keys(section.wrapped.entries).toSorted(), name);
  }
});

test("the pods of the default installation request what docs/sizing.md says: 320 Mi and 120m", () => {
  const pods = ["controller", "webhook", "proxy"].map((name) => values[name]);
  const sumOf = (resource: string, unit: RegExp) =>
    pods.reduce((sum, pod) => sum + pod.replicas * Number(pod.resources.requests[resource].replace(unit, "")), 0);
  assert.equal(sumOf("memory", /Mi$/), 320);
  assert.equal(sumOf("cpu", /m$/), 120);
});

test("docs/sizing.md repeats the controller's flags, with a larger heap", () => {
  const [, flags = ""] = /controller\.nodeFlags=\{(.*)\}/.exec(read("../docs/sizing.md")) ?? [];
  const isHeap = (flag: string) => flag.startsWith("--max-old-space-size=");
  const others = (list: string[]) => list.filter((flag) => !isHeap(flag));
  assert.deepEqual(others(flags.split(",")), others(values.controller.nodeFlags));
  assert.equal(flags.split(",").filter(isHeap).length, 1);
});

test("the chart has the version of the package", () => {
  const { version } = JSON.parse(read("../package.json"));
  const chart = parse(read("chart/Chart.yaml"));
  assert.deepEqual([chart.version, chart.appVersion], [version, version]);
});

for (const file of globSync("examples/values/*.yaml", { cwd: new URL("..", import.meta.url) })) {
  test(`the chart accepts ${file}`, () => {
    const { output, flaws } = validate(valuesSchema, parse(read(`../${file}`)));
    assert.deepEqual(flaws, []);
    parseConfig(output?.config, sections);
  });
}
