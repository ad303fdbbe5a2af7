import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "./parse.ts";
import { configSchema } from "./schema.ts";
import { listSettings } from "./settings.ts";

const SETTINGS = listSettings();

test("every setting of the schema is listed with its default", () => {
  const defaults = parseConfig({});
  for (const { path, default: value } of SETTINGS) {
    const own = path.split(".").reduce<unknown>((section, key) => (section as Record<string, unknown>)[key], defaults);
    assert.deepEqual(value, own, path);
  }
  assert.deepEqual([...new Set(SETTINGS.map(({ path }) => path.split(".")[0]))], Object.keys(configSchema.entries));
});

test("a setting has its path, type, default and description", () => {
  assert.deepEqual(
    SETTINGS.find(({ path }) => path === "proxy.maxConnectionsPerSource"),
    {
      path: "proxy.maxConnectionsPerSource",
      type: "integer",
      default: 1000,
      description: "Maximum number of concurrent connections per source address.",
    },
  );
  assert.equal(SETTINGS.find(({ path }) => path === "log.level")?.type, "trace | debug | info | warn | error");
});

test("every setting has a description", () => {
  for (const { path, description } of SETTINGS) assert.match(description, /\.$/, path);
});

test("a list or map counts as one setting", () => {
  for (const path of ["targets", "proxy.selector", "policy.allowDomains"]) {
    assert.ok(
      SETTINGS.some((setting) => setting.path === path),
      path,
    );
  }
});
