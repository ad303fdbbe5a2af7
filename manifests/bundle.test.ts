import assert from "node:assert/strict";
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { on, once } from "node:events";
import { globSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { LOADED_HOOK, loadedIn } from "#test/fakes/loaded.ts";
import { bundleProduct } from "./bundle.ts";

// Bundles the product into a folder where Node cannot find this checkout's packages.

const folder = mkdtempSync(join(tmpdir(), "switchback-bundle-"));
const program = join(folder, "cli", "main.js");
before(() => bundleProduct(folder));
after(() => rmSync(folder, { recursive: true }));

const files = () => globSync("**/*.*", { cwd: folder });
/** No cluster is configured, whatever the developer's environment has. */
const env = { PATH: process.env.PATH, HOME: folder };

const switchback = (...args: string[]) => runNode(program, ...args);

function runNode(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((done) => {
    const child: ChildProcess = execFile(
      process.execPath,
      args,
      { cwd: folder, env, timeout: 30_000 },
      (_error, stdout, stderr) => done({ code: child.exitCode ?? -1, stdout, stderr }),
    );
  });
}

test("the bundle has no TypeScript, types, maps or tests, and is under 6 MB", () => {
  assert.deepEqual(
    files().filter((path) => /\.(ts|map|md|mts|cts)$|test/.test(path)),
    [],
  );
  const bytes = files().reduce((sum, path) => sum + statSync(join(folder, path)).size, 0);
  assert.ok(bytes < 6_000_000, `${bytes} bytes`);
});

test("THIRD-PARTY-LICENSES names the license of each bundled package", () => {
  const text = readFileSync(join(folder, "THIRD-PARTY-LICENSES"), "utf8");
  for (const name of ["express", "valibot", "yaml", "node-forge", "commander", "koffi", "json-p3"]) {
    assert.match(text, new RegExp(`^${name} \\d+\\.\\d+\\.\\d+: \\S+`, "m"));
  }
  assert.doesNotMatch(text, /client-node/);
});

test("the proxy relays with the linux engine, whose threads start from the bundle", {
  skip: process.platform !== "linux" && "the engine is Linux's",
}, async () => {
  const set = ["proxy.address=127.0.0.1", "proxy.healthPort=0", "targets=[]"];
  const child = spawn(process.execPath, [program, "proxy", "--set", ...set], {
    cwd: folder,
    env,
    stdio: ["ignore", "ignore", "pipe"],
  });
  const ended = once(child, "exit");
  try {
    const engines: string[] = [];
    for await (const [line] of on(createInterface(child.stderr), "line", { close: ["close"] })) {
      const { engine, msg } = JSON.parse(String(line)) as { engine?: string; msg: string };
      if (engine !== undefined) engines.push(engine);
      if (msg.includes("nothing to relay")) break;
    }
    assert.deepEqual(engines, ["linux"]);
  } finally {
    child.kill("SIGTERM");
  }
  const [code, signal] = await ended;
  // The process writes the line while it starts, so it may get the signal before it handles it.
  assert.ok(code === 0 || signal === "SIGTERM", `${code} ${signal}`);
});

test("a kubeconfig is refused with advice, because the library that reads it is not in the image", async () => {
  writeFileSync(join(folder, "kubeconfig"), "{}");
  const { code, stderr } = await switchback("status", "--kubeconfig", join(folder, "kubeconfig"));
  assert.equal(code, 2);
  assert.match(stderr, /client-node is not installed.*leave out --kubeconfig and KUBECONFIG/);
});

test("a component starts from few files and imports no module of Node, because both cost CPU", async () => {
  for (const name of ["controller", "webhook", "proxy", "all"]) {
    // An address that this machine does not have (RFC 5737).
    const { stderr } = await runNode("--import", LOADED_HOOK, program, name, "--set", "proxy.address=192.0.2.1");
    const urls = loadedIn(stderr);
    assert.deepEqual(
      urls.filter((url) => url.startsWith("node:")),
      [],
      name,
    );
    const loaded = urls.map((url) => url.slice(url.lastIndexOf("/") + 1));
    assert.ok(loaded.includes(`${name}.js`) && loaded.length < 25, `${name}: ${loaded.join(" ")}`);
  }
});

test("each component and command finds all of its modules", async () => {
  for (const name of ["controller", "webhook", "all", "agent", "status", "doctor", "restart", "uninstall"]) {
    const { code, stderr } = await switchback(name);
    assert.notEqual(code, 0);
    assert.match(stderr, /no cluster|not in a pod|required|missing/i, name);
    assert.doesNotMatch(stderr, /Cannot find (module|package)|node:internal/, name);
  }
  // A package outside the bundle reads this path.
  const custom = "{group: example.com, version: v1, resource: sites, hostnames: '$.spec.hosts[*]'}";
  const config = await switchback("config", "--set", `sources.custom=[${custom}]`);
  assert.equal(config.code, 0, config.stderr);
  assert.match((await switchback("config", "--set", "sources.custom=[{hostnames: '$['}]")).stderr, /hostnames/);
});
