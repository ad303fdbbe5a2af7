import assert from "node:assert/strict";
import { globSync } from "node:fs";
import { join } from "node:path";
import { afterEach, it } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { runTool } from "#test/cluster/tools.ts";
import { useFiles } from "#test/fakes/cli.ts";
import { type FakeApi, fakeApi } from "#test/fakes/kube-api.ts";
import { LOADED_HOOK, loadedIn } from "#test/fakes/loaded.ts";
import { MemoryServer } from "#test/fakes/memory-server.ts";

// A command spends most of its CPU time on loading modules. Without these tests, nobody would notice a new import at
// the top of a file that makes commands slow again.

const TOP = fileURLToPath(new URL("..", import.meta.url));
const MAIN = fileURLToPath(new URL("./main.ts", import.meta.url));

const files = useFiles();
let api: FakeApi | undefined;
afterEach(() => api?.close());

/** Modules that the doctor loads, by their paths in the repository. */
async function loadedBy(server: MemoryServer): Promise<string[]> {
  api = await fakeApi(server.respond);
  const args = ["--import", LOADED_HOOK, MAIN, "doctor", "-n", "ours", "--kubeconfig", await files.kubeconfig(api.url)];
  const { stderr, stdout } = await runTool(process.execPath, args, {});
  assert.match(stdout, /^Pods reach the ingress controllers: this cluster needs no mapping/, stderr);
  return loadedIn(stderr);
}

const has = (loaded: readonly string[], part: string) => loaded.some((url) => url.includes(part));

it("doctor loads no certificates and no YAML parser if Switchback is not installed", async () => {
  const loaded = await loadedBy(new MemoryServer());
  assert.ok(has(loaded, "/doctor/gather-install.ts"));
  for (const part of ["node-forge", "/node_modules/yaml/"]) assert.ok(!has(loaded, part), part);
});

it("a component with a JSON configuration loads no YAML parser, and without custom kinds no JSONPath", async () => {
  const own = ["controller", "webhook", "proxy"].map((part) => import.meta.resolve(`./components/${part}.ts`));
  const ofExtras = globSync("extras/*/start.ts", { cwd: TOP }).map((path) => pathToFileURL(join(TOP, path)).href);
  const parts = [...own, ...ofExtras];
  const file = await files.file("config.json", JSON.stringify({ log: { level: "warn" }, targets: [] }, undefined, 2));
  const load = import.meta.resolve("#lib/config/load.ts");
  const script = `
    for (const part of ${JSON.stringify(parts)}) await import(part);
    const { loadConfig } = await import(${JSON.stringify(load)});
    await loadConfig({ file: ${JSON.stringify(file)}, set: ["controller.port=0", "restart.dailyBudget=1"] });`;
  const args = ["--import", LOADED_HOOK, "--input-type=module", "-e", script];
  const { stderr } = await runTool(process.execPath, args, {});
  const loaded = loadedIn(stderr);
  for (const part of parts) assert.ok(loaded.includes(part), part);
  assert.ok(has(loaded, "/config/schema.ts"));
  for (const part of ["/node_modules/yaml/", "/node_modules/json-p3/", "client-node"])
    assert.ok(!has(loaded, part), part);
});
