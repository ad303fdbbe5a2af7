import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { openSync } from "node:fs";
import { text } from "node:stream/consumers";
import { afterEach, it } from "node:test";
import { fileURLToPath } from "node:url";
import { useFiles } from "#test/fakes/cli.ts";
import { fullStatus } from "#test/fakes/full-status.ts";
import { addDeployment, installed } from "#test/fakes/installed.ts";
import { type FakeApi, fakeApi, json } from "#test/fakes/kube-api.ts";
import { bareEnvironment } from "#test/processes.ts";

// Runs commands as processes whose output is not read to its end, as in `switchback status | head -1`.

const MAIN = fileURLToPath(new URL("./main.ts", import.meta.url));
const files = useFiles();
let api: FakeApi;
afterEach(() => api.close());

/** A status with more names than a pipe holds (64 KiB), and with a stuck workload if `stuck`. */
function leader(stuck: boolean) {
  const names = Array.from({ length: 3_000 }, (_, index) => ({
    name: `n${index}.example.com`,
    from: { kind: "Ingress", namespace: "shop", name: "web" },
    since: "2026-01-01T00:00:00Z",
    target: "nginx",
    addresses: ["198.51.100.9"],
  }));
  const workload = { namespace: "shop", kind: "Deployment", name: "web", pods: 1, stale: 1, notInjected: 0 };
  const state = { standing: "stuck", mode: "restart", code: "paused", text: "it is paused", warnings: [] };
  const workloads = stuck ? [{ ...workload, ...state }] : [];
  const running = { workloads, waiting: 0, omitted: 0, counts: { workloads: workloads.length } };
  return json({ ...fullStatus(), names, running });
}

/** Runs a command, and closes its output at once, or after the first bytes. */
async function read(start: boolean, ...args: string[]) {
  const env = { ...bareEnvironment(), KUBECONFIG: await files.kubeconfig(api.url) };
  const child = spawn(process.execPath, [MAIN, ...args], { env, stdio: ["ignore", "pipe", "pipe"] });
  const ended = once(child, "exit");
  if (start) await once(child.stdout, "data");
  child.stdout.destroy();
  // A slow machine also gets lines that say for what the command waits.
  const stderr = (await text(child.stderr)).replaceAll(/^.* \.\.\.\n/gm, "");
  const [code, signal] = await ended;
  return { code, signal, stderr };
}

for (const stuck of [false, true]) {
  const code = Number(stuck);
  it(`if the reader stops early, status ends with ${code} and prints no error`, async () => {
    api = await fakeApi(leader(stuck));
    assert.deepEqual(await read(true, "status", "-o", "json"), { code, signal: null, stderr: "" });
  });
}

for (const [args, code, stderr] of [
  [["doctor"], 0, /^diagnosing http:.*\n$/],
  [["restart", "shop", "--yes"], 1, /^shop\/Deployment\/web was not restarted: spec\.paused.*\n$/],
  [["uninstall", "--check"], 1, /^switchback: 1 pod holds addresses of Switchback.*\n$/],
] as const) {
  it(`if nobody reads its output, ${args.join(" ")} ends with ${code} and does not mention the pipe`, async () => {
    const server = installed();
    addDeployment(server, "shop", "web", { paused: true });
    api = await fakeApi((call) => (call.path.endsWith("/status") ? leader(true) : server.respond)(call));
    const namespace = { doctor: [], uninstall: ["-n", "ours"] } as Readonly<Record<string, string[]>>;
    const ended = await read(false, ...args, ...(namespace[args[0]] ?? ["--switchback-namespace", "ours"]));
    assert.deepEqual([ended.code, ended.signal], [code, null], ended.stderr);
    assert.match(ended.stderr, stderr);
  });
}

it("a command fails if its output cannot be written", async () => {
  api = await fakeApi(leader(false));
  const env = { ...bareEnvironment(), KUBECONFIG: await files.kubeconfig(api.url) };
  const stdio = ["ignore", openSync("/dev/full", "w"), "pipe"] as const;
  const child = spawn(process.execPath, [MAIN, "status", "-o", "json"], { env, stdio: [...stdio] });
  assert.ok(child.stderr);
  const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, "exit")]);
  assert.equal(code, 1);
  assert.match(stderr, /^switchback: cannot write the output: .*ENOSPC.*\n$/);
});
