import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { runningRig } from "#test/fakes/rollout-rig.ts";
import { AGENT_SECTIONS, agentSettings } from "../config.ts";
import { agentUpdater } from "./pod-updater.ts";

// Pods that follow live, and the agents of their nodes.

const REVISION = "switchback.dev/revision";
const ON_CHANGE = "switchback.dev/on-change";

type Rig = ReturnType<typeof runningRig>;
type Status = ReturnType<ReturnType<Rig["start"]>["status"]>;

/** Settings of a controller, with agents. */
function withAgents(settings: { readonly pods?: object; readonly agent?: object } = {}) {
  const config = parseConfig(settings, AGENT_SECTIONS);
  return { pods: settings.pods, updaters: [agentUpdater(agentSettings(config), config.pods)] };
}

const readsOf = ({ reads }: Rig["api"], part: string) => reads.filter((path) => path.includes(part));
const codes = ({ workloads }: Status) => Object.fromEntries(workloads.map(({ name, code }) => [name, code]));

test("the agents' Leases are watched from the first pod that follows live until the term ends", async (t) => {
  const { api, term, start, pass, pod, publish } = runningRig(t, {}, withAgents());
  publish("a.example.com");
  const running = start();
  const leases = () => api.watched.filter((path) => path.endsWith("/leases"));
  pod("web-a");
  await pass(1_000);
  assert.deepEqual(leases(), []);
  pod("web-b", { annotations: { [ON_CHANGE]: "live" }, node: "node-1" });
  await pass(1_000);
  assert.deepEqual(leases(), ["/apis/coordination.k8s.io/v1/namespaces/switchback-agent/leases"]);
  term.abort();
  await running.done;
  assert.deepEqual(leases(), []);
});

/** Writes the Lease of an agent on node-1 that has applied this revision. */
function lease(rig: Pick<Rig, "api">, revision: string): void {
  rig.api.put("/apis/coordination.k8s.io/v1/namespaces/switchback-agent/leases/switchback-agent-node-1", {
    metadata: {
      labels: { "app.kubernetes.io/name": "switchback", "app.kubernetes.io/component": "agent" },
      annotations: { [REVISION]: revision },
    },
    spec: { renewTime: new Date().toISOString() },
  });
}

test("a live pod is in step if its agent has the revision; a silent agent is detected at once", async (t) => {
  const rig = runningRig(
    t,
    { dryRun: true },
    withAgents({ pods: { agentSilenceSeconds: 70 }, agent: { renewSeconds: 10 } }),
  );
  const { api, start, pass, pod, deployment, publish } = rig;
  const revision = publish("a.example.com");
  lease(rig, "earlier");
  deployment();
  pod("web-a", { annotations: { [ON_CHANGE]: "live", [REVISION]: "old" }, node: "node-1" });
  const running = start();
  await pass(1_000);
  assert.deepEqual(codes(running.status()), { web: "live" });
  lease(rig, revision);
  await pass(200);
  assert.deepEqual(codes(running.status()), { web: "in-step" });
  const heard = Date.now() - 200;
  await pass(heard + 70_000 - 50 - Date.now());
  assert.deepEqual(codes(running.status()), { web: "in-step" });
  await pass(150);
  assert.equal(codes(running.status()).web, "debouncing");
  assert.deepEqual(readsOf(api, "/pods/web-a"), [], "its node comes with the watch");
});

test("a new watch of Leases allows an agent twice its renewal interval", async (t) => {
  const rig = runningRig(
    t,
    { dryRun: true },
    withAgents({ pods: { agentSilenceSeconds: 60 }, agent: { renewSeconds: 10 } }),
  );
  const { start, pass, pod, deployment, publish } = rig;
  publish("a.example.com");
  lease(rig, "earlier");
  deployment();
  pod("web-a", { annotations: { [ON_CHANGE]: "live", [REVISION]: "old" }, node: "node-1" });
  t.mock.timers.tick(3_600_000);
  const running = start();
  await pass(19_000);
  assert.equal(codes(running.status()).web, "live");
  await pass(2_000);
  assert.notEqual(codes(running.status()).web, "live");
});

test("a live pod that is not bound yet waits until the watch reports its node", async (t) => {
  const rig = runningRig(t, {}, withAgents());
  const { api, start, pass, pod, deployment, publish } = rig;
  lease(rig, publish("a.example.com"));
  deployment();
  const annotations = { [ON_CHANGE]: "live", [REVISION]: "old" };
  pod("web-a", { annotations });
  const running = start();
  await pass(60_000);
  assert.equal(codes(running.status()).web, "live");
  pod("web-a", { annotations, node: "node-1" });
  await pass(200);
  assert.equal(codes(running.status()).web, "in-step");
  assert.deepEqual(readsOf(api, "/pods/web-a"), []);
});

test("without agents, live pods are treated as `restart`, and no Lease is watched", async (t) => {
  const rig = runningRig(t, { dryRun: true });
  const { api, start, pass, pod, deployment, publish } = rig;
  lease(rig, publish("a.example.com"));
  deployment();
  pod("web-a", { annotations: { [ON_CHANGE]: "live", [REVISION]: "old" }, node: "node-1" });
  const running = start();
  await pass(1_000);
  assert.equal(codes(running.status()).web, "debouncing");
  assert.deepEqual(
    api.watched.filter((path) => path.endsWith("/leases")),
    [],
  );
});

test("the silence of the Leases' watch is reported", async (t) => {
  let steady = performance.now();
  t.mock.method(performance, "now", () => steady);
  const { api, start, pass, pod, publish } = runningRig(t, {}, withAgents());
  publish("a.example.com");
  pod("web-a", { annotations: { [ON_CHANGE]: "live" }, node: "node-1" });
  const running = start();
  await pass(1_000);
  const leases = api.watched.filter((path) => path.endsWith("/leases"));
  for (const path of api.watched) api.bookmark(path);
  assert.deepEqual([running.inactiveMs, leases.length], [0, 1]);
  steady += 60_000;
  for (const path of api.watched) if (!leases.includes(path)) api.bookmark(path);
  assert.equal(running.inactiveMs, 60_000);
});
