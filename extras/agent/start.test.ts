import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { freePort } from "#proxy/conformance/rig.ts";
import { MAIN, useFiles } from "#test/fakes/cli.ts";
import { collection, fakeApi, until, watch } from "#test/fakes/kube-api.ts";
import { kubeletFiles } from "#test/fakes/kubelet-files.ts";
import { assertLight } from "#test/fakes/loaded.ts";
import { MemoryServer } from "#test/fakes/memory-server.ts";

const files = useFiles();

test("the agent follows the pods of its node until a signal stops it", async (t) => {
  const api = await fakeApi(collection(new MemoryServer().respond, watch()));
  t.after(() => api.close());
  const own = {
    kubeletRoot: kubeletFiles(t).root,
    healthPort: await freePort(),
  };
  const set = Object.entries(own).map(([key, value]) => `agent.${key}=${value}`);
  const child = spawn(process.execPath, [MAIN, "agent", "--set", ...set, "address=127.0.0.1", "namespace=ours"], {
    env: { KUBECONFIG: await files.kubeconfig(api.url), SWITCHBACK_AGENT_NODE: "node-1" },
    stdio: ["ignore", "ignore", "pipe"],
  });
  t.after(() => child.kill("SIGKILL"));
  const exited = once(child, "exit");
  for await (const line of createInterface({ input: child.stderr })) {
    const { msg, node, component } = JSON.parse(line);
    if (msg !== "following the map") continue;
    assert.deepEqual([node, component], ["node-1", "agent"]);
    break;
  }
  child.stderr.resume();
  // The agent follows a map only when a pod follows it, so wait for its pods here.
  await until(() => api.calls.some(({ query }) => query.get("fieldSelector") === "spec.nodeName=node-1"), "the pods");
  const agents = api.calls.map(({ headers }) => headers["user-agent"]?.split("/")[0]);
  assert.deepEqual([...new Set(agents)], ["switchback-agent"]);
  child.kill("SIGTERM");
  assert.deepEqual(await exited, [0, null]);
});

test("the agent does not load undici and its dependencies, which it does not use", () =>
  assertLight("extras/agent/start.ts"));
