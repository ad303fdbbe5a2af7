import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import {
  AGENT_LABELS,
  AGENT_LEASES,
  AGENT_PATH,
  addConfig,
  addDeployment,
  installed,
  planOf,
  runUninstall,
  type UninstallRun,
  WEBHOOK_PATH,
} from "#test/fakes/installed.ts";
import { type MemoryServer, refusal } from "#test/fakes/memory-server.ts";
import { AGENT_UNINSTALL } from "./leave.ts";

// The whole uninstall, including the agents' step.

const WEBHOOK_GONE = "the webhook configuration switchback-webhook is gone: new pods are no longer injected";
const FREE = "no pod holds an address of Switchback";
const WEB = "/apis/apps/v1/namespaces/shop/deployments/web";

const run = (t: TestContext, api: MemoryServer, options: UninstallRun = {}) =>
  runUninstall(t, api, { ...options, parts: [AGENT_UNINSTALL] });

/** Finishes a restart: the old pod of the Deployment is gone. */
function rollsOut(api: MemoryServer, name: string): void {
  api.objects.delete(`/api/v1/namespaces/shop/pods/${name}-old`);
}

test("the uninstall has the only order that works: webhook, restarts, the wait for old pods, agents", async (t) => {
  const api = installed();
  for (const name of ["web", "api"]) addDeployment(api, "shop", name);
  api.add(AGENT_PATH.slice(0, AGENT_PATH.lastIndexOf("/")), "switchback-agent");
  api.add(AGENT_LEASES, "switchback-agent-a", { metadata: { labels: AGENT_LABELS } });
  const { done, said, saidAt, time } = run(t, api, {
    onWait: (elapsed) => {
      if (elapsed === 2_000) assert.deepEqual(api.writes, [`DELETE ${WEBHOOK_PATH}`]);
      if (elapsed === 4_000) rollsOut(api, "web");
      if (elapsed === 6_000) {
        assert.equal(api.writes.length, 3, "no agent has been asked to leave");
        rollsOut(api, "api");
      }
      if (elapsed === 7_000) api.objects.delete(`${AGENT_LEASES}/switchback-agent-a`);
    },
  });
  await done;
  assert.deepEqual(said, [
    WEBHOOK_GONE,
    "shop/Deployment/api: restarted",
    "shop/Deployment/web: restarted",
    "waiting for the old pods of shop/Deployment/api, shop/Deployment/web",
    "waiting for the old pods of shop/Deployment/api",
    "the agents remove their names from the hosts files of running pods",
    FREE,
  ]);
  assert.deepEqual(saidAt, [0, 2, 2, 2, 4, 6, 7]);
  assert.deepEqual(api.writes, [
    `DELETE ${WEBHOOK_PATH}`,
    "PATCH /apis/apps/v1/namespaces/shop/deployments/api",
    `PATCH ${WEB}`,
    `PATCH ${AGENT_PATH}`,
    `DELETE ${WEBHOOK_PATH}`,
  ]);
  assert.deepEqual(time.waits, [2_000, 2_000, 2_000, 1_000]);
  const [patch] = api.callsOf("PATCH", WEB);
  const at = new Date(1_700_000_000_000 + 2_000).toISOString();
  const annotations = { "switchback.dev/restartedAt": at };
  const metadata = { uid: "uid-web", resourceVersion: "7" };
  assert.deepEqual(patch?.body, { metadata, spec: { template: { metadata: { annotations } } } });
});

describe("agents that do not leave", () => {
  function withAgents(...names: string[]): MemoryServer {
    const api = installed();
    api.add(AGENT_PATH.slice(0, AGENT_PATH.lastIndexOf("/")), "switchback-agent");
    for (const name of names) api.add(AGENT_LEASES, name, { metadata: { labels: AGENT_LABELS } });
    return api;
  }

  test("are named, and nothing else is removed", async (t) => {
    const { done, said, time } = run(t, withAgents("switchback-agent-a", "switchback-agent-b"), { timeoutMs: 5_000 });
    await assert.rejects(done, {
      code: "still-held",
      message:
        "agents still have names in the hosts files of running pods: switchback-agent-a, switchback-agent-b. " +
        "Uninstall again",
    });
    assert.equal(said.includes(FREE), false);
    assert.deepEqual(time.waits, [2_000, 1_000, 1_000, 1_000]);
  });

  test("are skipped with force, with a message", async (t) => {
    const { done, said } = run(t, withAgents("switchback-agent-a"), { timeoutMs: 1_000, force: true });
    await done;
    const held = "agents still have names in the hosts files of running pods: switchback-agent-a";
    assert.equal(said.at(-1), `${held}; continuing because of --force`);
  });

  test("are looked for in the configured namespace", async (t) => {
    const api = installed("agent: { namespace: elsewhere }");
    await run(t, api).done;
    assert.equal(api.callsOf("GET", AGENT_PATH.replace("switchback-agent/", "elsewhere/")).length, 1);
  });
});

for (const status of [403, 409, 500]) {
  test(`a ${status} for the agents is thrown, also with force`, async (t) => {
    const api = installed();
    api.onCall = ({ path }) => (path === AGENT_PATH ? refusal(status, "Refused") : undefined);
    const { done, said } = run(t, api, { force: true });
    await assert.rejects(done, { code: "kube-status", status });
    assert.equal(said.includes(FREE), false);
  });
}

describe("the namespace of the agents", () => {
  for (const [what, data] of [
    ["is empty", { "config.yaml": "" }],
    ["has no key", {}],
    ["is of another version", { "config.yaml": "unheardOf: 1\nagent: { other: 2 }\nrestart: { mode: x }" }],
    ["has no data", undefined],
  ] as const) {
    test(`is the chart's default with a configuration that ${what}`, async (t) => {
      const api = installed();
      addConfig(api, data);
      await run(t, api).done;
      assert.equal(api.callsOf("GET", AGENT_PATH).length, 1);
    });
  }

  test("of a wrong type ends the uninstall before anything is written", async (t) => {
    const api = installed("agent: { namespace: 5 }");
    await assert.rejects(run(t, api).done, { code: "data-corrupt" });
    assert.deepEqual(api.writes, []);
  });
});

test("the plan names the agents' step", async () => {
  const { said } = await planOf(installed(), [AGENT_UNINSTALL]);
  assert.deepEqual(said.slice(3, 5), [
    "3. The agents, if any, remove their names from the hosts files of running pods.",
    "4. The controller stops. What it has created is deleted: front Services, map, certificates and Lease.",
  ]);
});
