import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { parse } from "yaml";
import { configSchema } from "../config/schema.ts";
import { valuesSchema } from "./values.ts";

const read = (path: string) => readFileSync(new URL(path, import.meta.url), "utf8");
const values = parse(read("chart/values.yaml"));

test("values.yaml fits the schema", () => {
  valuesSchema.parse(values);
});

test("the config in values.yaml repeats defaults and changes none", () => {
  assert.deepEqual(configSchema.parse(values.config), configSchema.parse({}));
});

test("every section of the schema stands in values.yaml with its keys", () => {
  const optional = ["config", "global", "enabled"];
  const sections = Object.keys(valuesSchema.shape).filter((key) => !optional.includes(key));
  assert.deepEqual(
    sections.toSorted(),
    Object.keys(values)
      .filter((key) => key !== "config")
      .toSorted(),
  );
  const { pods, image, networkPolicy, serviceMonitor, admission } = valuesSchema.shape;
  for (const [name, section] of Object.entries({ pods, image, networkPolicy, serviceMonitor, admission })) {
    assert.deepEqual(Object.keys(values[name]).toSorted(), Object.keys(section.unwrap().shape).toSorted(), name);
  }
});

test("a key that the schema does not know is refused, with its path", () => {
  const result = valuesSchema.safeParse({ proxy: { replica: 3 } });
  assert.deepEqual(
    result.error?.issues.map(({ path, code }) => ({ path, code })),
    [{ path: ["proxy"], code: "unrecognized_keys" }],
  );
});

test("the chart has the version of the package", () => {
  const { version } = JSON.parse(read("../package.json"));
  const chart = parse(read("chart/Chart.yaml"));
  assert.deepEqual([chart.version, chart.appVersion], [version, version]);
});

for (const file of globSync("examples/values/*.yaml", { cwd: new URL("..", import.meta.url) })) {
  test(`${file} can be given to the chart`, () => {
    const example = valuesSchema.parse(parse(read(`../${file}`)));
    configSchema.parse(example.config);
  });
}
