import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { fileURLToPath } from "node:url";
import { filesFolder } from "#test/fakes/cli.ts";
import { readConfig } from "./read-config.ts";

const MAIN = fileURLToPath(new URL("./main.ts", import.meta.url));

let files: Awaited<ReturnType<typeof filesFolder>>;
before(async () => {
  files = await filesFolder();
});
after(() => files.remove());
// The child runs the same script as this process: without this, that would be this test file.
const { argv } = process;
beforeEach(() => {
  process.argv = [process.execPath, MAIN];
});
afterEach(() => {
  process.argv = argv;
});

test("the child reads file, environment and flags as this process would", async () => {
  const config = await files.file("config.yaml", "log: { level: warn }\ncontroller: { port: 1234 }\n");
  const env = { SWITCHBACK_CONTROLLER_PORT: "4321" };
  const loaded = await readConfig({ config, set: ["log.level=debug", "namespace=elsewhere"] }, env);
  const { log, controller, namespace } = loaded.config;
  assert.deepEqual([log.level, controller.port, namespace], ["debug", 4321, "elsewhere"]);
  assert.deepEqual(loaded.warnings, []);
});

test("the child ignores what it does not know of the file, with a warning, as this process would", async () => {
  const config = await files.file("later.yaml", "later: 1\n");
  const { warnings } = await readConfig({ config }, {});
  assert.deepEqual(warnings, [`${config}: later is not a setting of this release; it is ignored`]);
});

test("reads the defaults without any input, and without a child", async () => {
  process.argv = [process.execPath, "/dev/null"];
  assert.equal((await readConfig({}, {})).config.log.level, "info");
});

test("takes a configuration of several megabytes", async () => {
  const names = Array.from({ length: 100_000 }, (_, at) => `a-name-of-some-length-${at}.example.com`);
  const config = await files.file("large.yaml", `policy: { denyDomains: ${JSON.stringify(names)} }\n`);
  const { policy } = (await readConfig({ config }, {})).config;
  assert.equal(policy.denyDomains.length, names.length);
});

test("throws the child's error output, one line per fault", async () => {
  const config = await files.file("wrong.yaml", "controller: { port: -1 }\nmap: { vanishSeconds: -1 }\n");
  await assert.rejects(
    () => readConfig({ config }, {}),
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

test("a child starts no child, whatever its script is", async () => {
  const config = await files.file("no-json-either.yaml", "log: { level: warn }\n");
  process.argv = [process.execPath, MAIN, "config"];
  await assert.rejects(() => readConfig({ config }, {}), {
    code: "config-invalid",
    message: /has no child of its own/,
  });
});

test("without error output, reports how the child ended", async () => {
  const killed = await files.file("killed.ts", 'process.kill(process.pid, "SIGKILL");');
  process.argv = [process.execPath, killed];
  const config = await files.file("no-json.yaml", "log: { level: warn }\n");
  await assert.rejects(() => readConfig({ config }, {}), {
    code: "config-invalid",
    message: "cannot read the configuration: SIGKILL",
  });
});
