import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { captured, filesFolder } from "../test/fakes/cli.ts";
import { printConfig } from "./config.ts";

let files: Awaited<ReturnType<typeof filesFolder>>;
before(async () => {
  files = await filesFolder();
});
after(() => files.remove());

test("prints what a component would read: the file, over it the environment, over that the flags", async () => {
  const config = await files.file("config.yaml", "log: { level: warn }\ncontroller: { port: 1234 }\n");
  const { context, written } = captured({ SWITCHBACK_LOG_LEVEL: "error", SWITCHBACK_CONTROLLER_PORT: "4321" });
  printConfig({ config, set: ["log.level=debug"] }, context);
  const printed = JSON.parse(written.stdout);
  assert.deepEqual([printed.config.log.level, printed.config.controller.port], ["debug", 4321]);
  assert.ok(Array.isArray(printed.warnings));
  assert.deepEqual([written.stderr, written.stdout.endsWith("}\n")], ["", true]);
});

test("without a file, a variable or a flag prints the defaults", () => {
  const { context, written } = captured();
  printConfig({}, context);
  assert.equal(JSON.parse(written.stdout).config.log.level, "info");
});

test("a fault of the configuration is thrown, and nothing is printed", () => {
  const { context, written } = captured();
  assert.throws(() => printConfig({ set: ["log.level=loud"] }, context), { code: "config-invalid" });
  assert.throws(() => printConfig({ config: "/nonexistent/config.yaml" }, context), { code: "config-invalid" });
  assert.equal(written.stdout, "");
});
