import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { fileURLToPath } from "node:url";
import { filesFolder } from "../test/fakes/cli.ts";
import { configOfChild } from "./read-config.ts";

const MAIN = fileURLToPath(new URL("./main.ts", import.meta.url));

let files: Awaited<ReturnType<typeof filesFolder>>;
before(async () => {
  files = await filesFolder();
});
after(() => files.remove());
// The command that runs is run again, as another one: here that would be this file.
const { argv } = process;
beforeEach(() => {
  process.argv = [process.execPath, MAIN];
});
afterEach(() => {
  process.argv = argv;
});

test("the child reads file, environment and flags, as this process would", async () => {
  const config = await files.file("config.yaml", "log: { level: warn }\ncontroller: { port: 1234 }\n");
  const env = { SWITCHBACK_CONTROLLER_PORT: "4321" };
  const loaded = configOfChild({ config, set: ["log.level=debug", "namespace=elsewhere"] }, env);
  const { log, controller, namespace } = loaded.config;
  assert.deepEqual([log.level, controller.port, namespace], ["debug", 4321, "elsewhere"]);
  assert.deepEqual(loaded.warnings, []);
});

test("without anything it reads the defaults", () => {
  assert.equal(configOfChild({}, {}).config.log.level, "info");
});

test("what the child says is wrong is what is wrong, a line each", async () => {
  const config = await files.file("wrong.yaml", "controller: { port: -1 }\nmap: { vanishSeconds: -1 }\n");
  assert.throws(
    () => configOfChild({ config }, {}),
    (error: Error & { code?: string }) => {
      const lines = error.message.split("\n");
      assert.equal(error.code, "config-invalid");
      assert.deepEqual(lines.map((line) => line.replace(/^\S+: (\S+): .*$/, "$1")).sort(), [
        "controller.port",
        "map.vanishSeconds",
      ]);
      return true;
    },
  );
});

test("a child that says nothing is named by how it ended", async () => {
  const killed = await files.file("killed.ts", 'process.kill(process.pid, "SIGKILL");');
  process.argv = [process.execPath, killed];
  assert.throws(() => configOfChild({}, {}), {
    code: "config-invalid",
    message: "the configuration cannot be read: SIGKILL",
  });
});
