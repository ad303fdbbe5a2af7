import assert from "node:assert/strict";
import { test } from "node:test";
import { captured, useFiles } from "#test/fakes/cli.ts";
import { printConfig } from "./config.ts";

const files = useFiles();

test("prints the effective configuration: flags override the file", async () => {
  const config = await files.file("config.yaml", "log: { level: warn }\ncontroller: { port: 1234 }\n");
  const { context, written } = captured();
  await printConfig({ config, set: ["log.level=debug"] }, context);
  const printed = JSON.parse(written.stdout);
  assert.deepEqual([printed.config.log.level, printed.config.controller.port], ["debug", 1234]);
  assert.ok(Array.isArray(printed.warnings));
  assert.deepEqual([written.stderr, written.stdout.endsWith("}\n")], ["", true]);
});

test("prints the defaults without a file or flag", async () => {
  const { context, written } = captured();
  await printConfig({}, context);
  assert.equal(JSON.parse(written.stdout).config.log.level, "info");
});

test("throws on an invalid configuration, and prints nothing", async () => {
  const { context, written } = captured();
  await assert.rejects(() => printConfig({ set: ["log.level=loud"] }, context), { code: "config-invalid" });
  await assert.rejects(() => printConfig({ config: "/nonexistent/config.yaml" }, context), { code: "config-invalid" });
  assert.equal(written.stdout, "");
});

test("an unknown setting is an error for a person, and a warning for a component", async () => {
  const config = await files.file("later.yaml", "later: 1\n");
  const { context, written } = captured();
  await assert.rejects(() => printConfig({ config }, context), {
    code: "config-invalid",
    message: /later: unknown setting/,
  });
  await printConfig({ config, ignoreUnknown: true }, context);
  assert.equal(JSON.parse(written.stdout).warnings.length, 1);
});
