import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import type { Readable } from "node:stream";
import { afterEach, it } from "node:test";
import { fileURLToPath } from "node:url";
import { useFiles } from "#test/fakes/cli.ts";
import { type FakeApi, fakeApi, json, type Responder, refuse } from "#test/fakes/kube-api.ts";
import { bareEnvironment } from "#test/processes.ts";

// Runs `switchback status --watch` as a process, as from a terminal.

const MAIN = fileURLToPath(new URL("./main.ts", import.meta.url));
const DEADLINE_MS = 60_000;

const files = useFiles();
let api: FakeApi;
let child: ChildProcess;
let answer: Responder;
afterEach(async () => {
  child.kill("SIGKILL");
  await api.close();
});

/** The leader's answer, with one workload. */
function says(revision: string, standing = "in-step"): Responder {
  const workload = { namespace: "shop", kind: "Deployment", name: "web", pods: 1, stale: 1, notInjected: 0, standing };
  const workloads = [{ ...workload, mode: "restart", code: "in-step", text: "", warnings: [] }];
  const running = { workloads, waiting: 0 };
  return json({ leader: true, identity: "controller-0", revision, warnings: [], targets: [], names: [], running });
}

async function watching(...flags: string[]) {
  api = await fakeApi((call) => answer(call));
  const kubeconfig = await files.kubeconfig(api.url);
  const args = [MAIN, "status", "--watch", "--kubeconfig", kubeconfig, ...flags];
  child = spawn(process.execPath, args, { env: bareEnvironment(), stdio: ["ignore", "pipe", "pipe"] });
  const written = { stdout: "", stderr: "" };
  for (const key of ["stdout", "stderr"] as const) child[key]?.on("data", (chunk) => (written[key] += String(chunk)));
  const ended = once(child, "exit");
  const sees = async (key: keyof typeof written, pattern: RegExp) => {
    const late = AbortSignal.timeout(DEADLINE_MS);
    while (!pattern.test(written[key])) {
      const more = once(child[key] as Readable, "data", { signal: late }).catch(() => {});
      await Promise.race([more, ended]);
      assert.ok(!late.aborted && child.exitCode === null, `${pattern}: ${JSON.stringify(written)}`);
    }
  };
  const interrupt = async (signal: NodeJS.Signals = "SIGINT") => {
    child.kill(signal);
    return await ended;
  };
  return { written, sees, interrupt };
}

/** From now on answers with `responder`. Resolves at the next call. */
function nextCall(responder: Responder): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  answer = (call) => {
    resolve();
    return responder(call);
  };
  return promise;
}

const away: Responder = (call) => void call.socket.destroy();
const endpointsGone = refuse(503, "ServiceUnavailable");

it("outlives an unreachable API server or missing endpoints, reports each once, and then prints again", async () => {
  answer = says("one");
  const { written, sees, interrupt } = await watching();
  await sees("stdout", /^map one, /m);
  answer = away;
  await sees("stderr", /^status unknown: .*; retrying$/m);
  answer = endpointsGone;
  await sees("stderr", /^status unknown: .*503.*$/m);
  for (let calls = 0; calls < 3; calls += 1) await nextCall(endpointsGone);
  answer = says("one");
  await sees("stdout", /^map one, [\s\S]*^map one, /m);
  answer = says("two");
  await sees("stdout", /^map two, /m);
  assert.deepEqual(await interrupt(), [0, null]);
  assert.equal(written.stderr.split("\n").filter((line) => line.includes("503")).length, 1);
});

it("on Ctrl-C exits with the last status's code: 1 if a workload is stuck or the status is unknown", async () => {
  answer = says("one", "stuck");
  const stuck = await watching();
  await stuck.sees("stdout", /^map one, /m);
  assert.deepEqual(await stuck.interrupt(), [1, null]);
  await api.close();
  answer = says("one");
  const unknown = await watching();
  await unknown.sees("stdout", /^map one, /m);
  answer = away;
  await unknown.sees("stderr", /status unknown/);
  assert.deepEqual(await unknown.interrupt("SIGTERM"), [1, null]);
});

it("on Ctrl-C does not wait for a pending answer", async () => {
  answer = says("one");
  const { sees, interrupt } = await watching("-o", "json");
  await sees("stdout", /"revision": "one"/);
  await nextCall(() => {});
  const before = performance.now();
  assert.deepEqual(await interrupt(), [0, null]);
  assert.ok(performance.now() - before < 8_000, "a call is given up after 10 s by itself");
});

it("fails at once if the first status cannot be read, as without --watch", async () => {
  answer = refuse(404, "NotFound");
  const { written, interrupt } = await watching();
  await once(child, "exit");
  assert.equal(child.exitCode, 2, written.stderr);
  await interrupt();
});
