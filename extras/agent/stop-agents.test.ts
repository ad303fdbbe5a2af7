import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { AGENT_LABELS, AGENT_LEASES, AGENT_PATH } from "#test/fakes/installed.ts";
import { MemoryServer, refusal } from "#test/fakes/memory-server.ts";
import { skipWaits } from "#test/fakes/skipped-waits.ts";
import { stopAgents } from "./stop-agents.ts";

const DAEMON_SETS = AGENT_PATH.slice(0, AGENT_PATH.lastIndexOf("/"));

function withAgents(...nodes: string[]): MemoryServer {
  const api = new MemoryServer();
  api.add(DAEMON_SETS, "switchback-agent");
  for (const node of nodes) api.add(AGENT_LEASES, `switchback-agent-${node}`, { metadata: { labels: AGENT_LABELS } });
  return api;
}

function run(t: TestContext, api: MemoryServer, { timeoutMs = 5_000, onWait = (_elapsed: number) => {} } = {}) {
  const time = skipWaits(t, onWait);
  const said: string[] = [];
  const say = (line: string) => void said.push(line);
  const left = stopAgents({ client: api.client, namespace: "switchback-agent", timeoutMs, now: Date.now, say });
  return { left, said, time };
}

test("without agents, the uninstall does not wait and writes nothing", async (t) => {
  const api = new MemoryServer();
  api.add(AGENT_LEASES, "switchback-agent-left-over", { metadata: { labels: AGENT_LABELS } });
  const { left, said, time } = run(t, api);
  assert.deepEqual(await left, []);
  assert.deepEqual([said, time.waits, api.writes], [[], [], []]);
});

test("the DaemonSet is marked, and each agent that is done deletes its Lease", async (t) => {
  const api = withAgents("a", "b");
  const { left, said, time } = run(t, api, {
    onWait: (elapsed) => api.objects.delete(`${AGENT_LEASES}/switchback-agent-${elapsed === 1_000 ? "a" : "b"}`),
  });
  assert.deepEqual(await left, []);
  assert.deepEqual(time.waits, [1_000, 1_000]);
  assert.deepEqual(said, ["the agents remove their names from the hosts files of running pods"]);
  assert.deepEqual(api.writes, [`PATCH ${AGENT_PATH}`]);
  const [patch] = api.callsOf("PATCH", AGENT_PATH);
  assert.deepEqual(patch?.body, { metadata: { annotations: { "switchback.dev/leaving": "true" } } });
  assert.equal(patch?.query.get("fieldManager"), "switchback-uninstall");
});

test("the uninstall does not wait for agents that are done at once", async (t) => {
  const { left, time } = run(t, withAgents());
  assert.deepEqual([await left, time.waits], [[], []]);
});

test("Leases that are left at the timeout are returned; other Leases are not", async (t) => {
  const api = withAgents("a", "b");
  api.add(AGENT_LEASES, "somebody-elses", { metadata: { labels: { "app.kubernetes.io/name": "switchback" } } });
  api.add(AGENT_LEASES.replace("switchback-agent", "other"), "elsewhere", { metadata: { labels: AGENT_LABELS } });
  const { left, time } = run(t, api, { timeoutMs: 3_000 });
  assert.deepEqual(await left, ["switchback-agent-a", "switchback-agent-b"]);
  assert.deepEqual(time.waits, [1_000, 1_000, 1_000]);
});

for (const [what, method, path] of [
  ["reading the DaemonSet", "GET", AGENT_PATH],
  ["marking it", "PATCH", AGENT_PATH],
  ["listing Leases", "GET", AGENT_LEASES],
] as const) {
  for (const status of method === "GET" && path === AGENT_PATH ? [403, 409, 500] : [403, 404, 409, 500]) {
    test(`a ${status} when ${what} is thrown`, async (t) => {
      const api = withAgents("a");
      api.onCall = (call) => (call.method === method && call.path === path ? refusal(status, "Refused") : undefined);
      await assert.rejects(run(t, api).left, { code: "kube-status", status });
    });
  }
}
