import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { microTime } from "#lib/kube/lease.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { podFacts } from "#lib/workloads/pods.ts";
import { type FakeCall, fakeApi, json, page, refuse, until } from "#test/fakes/kube-api.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { settled } from "#test/fakes/stopped-time.ts";
import { AGENT_LEASE_LABELS, agentLeaseName, agentLeasePath } from "../agent-lease-format.ts";
import { AgentLeaseReader } from "./lease-reader.ts";

const NODE = "node-1";
const START = Date.parse("2026-01-01T00:00:00Z");
const SILENCE_MS = 600_000;
const GRACE_MS = 60_000;

function lease(renewedAt: number, problem: string, version: number) {
  return {
    metadata: {
      namespace: "agents",
      name: agentLeaseName(NODE),
      uid: "uid-1",
      resourceVersion: `${version}`,
      labels: AGENT_LEASE_LABELS,
      annotations: { "switchback.dev/problem": problem },
    },
    spec: { renewTime: microTime(renewedAt) },
  };
}

const POD = podFacts({ metadata: { namespace: "shop", name: "web" }, spec: { nodeName: NODE } });
const stateOf = (agents: AgentLeaseReader) => agents.of(POD);
const isSynced = (agents: AgentLeaseReader) => stateOf(agents) !== "unknown";

/**
 * A controller's view of one agent, whose Lease was renewed at `renewedAt`. The clock stands still unless a test
 * moves it.
 */
async function listening(t: TestContext, renewedAt: number) {
  const clock = { now: START };
  let current = lease(renewedAt, "", 1);
  let watches: FakeCall[] = [];
  let isAway = false;
  let changes = 0;
  const api = await fakeApi((call) => {
    if (isAway) return refuse(503, "ServiceUnavailable")(call);
    if (call.query.get("watch") !== "true") return page([current], current.metadata.resourceVersion)(call);
    call.response.writeHead(200, { "content-type": "application/json" }).flushHeaders();
    watches.push(call);
  });
  const agents = new AgentLeaseReader({
    client: api.client,
    log: silentLogger,
    namespace: "agents",
    silenceMs: SILENCE_MS,
    graceMs: GRACE_MS,
    now: () => clock.now,
    onChange: () => {
      changes += 1;
    },
  });
  t.after(async () => {
    await agents.stop();
    await api.close();
  });
  const say = (type: string) => {
    const line = `${JSON.stringify({ type, object: current })}\n`;
    for (const { response } of watches) response.write(line);
  };
  return {
    agents,
    clock,
    of: () => stateOf(agents),
    /**
     * Lets time pass, in steps of `stepMs`, until the agent counts as silent. A reader that does not hear the API
     * server never reports that.
     */
    async fallsSilent(stepMs = 2 * SILENCE_MS) {
      await until(() => {
        clock.now += stepMs;
        return stateOf(agents) === "silent";
      }, "silence");
    },
    async renew(at: number, problem: string) {
      const before = changes;
      current = lease(at, problem, Number(current.metadata.resourceVersion) + 1);
      say("MODIFIED");
      await until(() => changes > before, "the renewal");
    },
    remove: () => say("DELETED"),
    away() {
      isAway = true;
      for (const { socket } of watches) socket.destroy();
      watches = [];
    },
    back() {
      isAway = false;
    },
  };
}

test("after a renewal, an agent is alive until it was silent for long enough", async (t) => {
  const { clock, of, fallsSilent, renew } = await listening(t, START);
  await fallsSilent();
  await renew(clock.now, "");
  const end = clock.now + SILENCE_MS;
  clock.now = end - 1;
  assert.equal(of(), "alive");
  clock.now = end;
  assert.equal(of(), "silent");
});

test("a renewal counts from when it is heard, whatever the node's clock says", async (t) => {
  const { clock, of, fallsSilent, renew } = await listening(t, START);
  await fallsSilent();
  for (const wrong of [START - 86_400_000, START + 10 * 86_400_000]) {
    await renew(wrong, "");
    clock.now += SILENCE_MS - 1;
    assert.equal(of(), "alive");
    clock.now += 1;
    assert.equal(of(), "silent");
  }
});

test("an agent that names a pod has a problem with this pod alone, until it no longer names it", async (t) => {
  const { agents, clock, of, fallsSilent, renew } = await listening(t, START);
  await fallsSilent();
  await renew(clock.now, "xshop/web: file-busy, shop/web: file-too-large, 3 more");
  assert.deepEqual([of(), agents.of({ ...POD, name: "db" })], ["problem", "alive"]);
  clock.now += SILENCE_MS;
  assert.equal(of(), "silent");
  await renew(clock.now, "xshop/web: file-busy, shop/web-1: file-busy");
  assert.equal(of(), "alive");
});

test("for an agent that was silent for long, a new reader waits only for the grace period", async (t) => {
  const { clock, fallsSilent, renew, of } = await listening(t, START - 86_400_000);
  await fallsSilent(GRACE_MS / 10);
  assert.ok(clock.now >= START + GRACE_MS, `${clock.now - START} ms`);
  await renew(clock.now, "");
  assert.equal(of(), "alive");
});

test("while the API server is away, no agent is silent; after that, each agent has one grace period", async (t) => {
  const { clock, of, fallsSilent, away, back } = await listening(t, START);
  await fallsSilent();
  away();
  await until(() => of() === "alive", "the outage to be noticed");
  clock.now += 2 * SILENCE_MS;
  assert.equal(of(), "alive");
  back();
  const before = clock.now;
  await fallsSilent(GRACE_MS / 10);
  assert.ok(clock.now >= before + GRACE_MS, `${clock.now - before} ms`);
});

test("a node has no agent if its Lease was deleted or never seen", async (t) => {
  const { agents, of, fallsSilent, remove } = await listening(t, START);
  await fallsSilent();
  assert.equal(agents.of({ ...POD, node: "node-2" }), "absent");
  remove();
  await until(() => of() === "absent", "the deletion");
});

test("the reader is synced after the list, or if it may not read Leases", async (t) => {
  for (const respond of [page([], "1"), refuse(403, "Forbidden")]) {
    const api = await fakeApi(respond);
    const deps = { client: api.client, log: silentLogger, namespace: "agents", onChange: () => {} };
    const agents = new AgentLeaseReader({ ...deps, silenceMs: SILENCE_MS, graceMs: GRACE_MS, now: () => START });
    t.after(async () => {
      await agents.stop();
      await api.close();
    });
    assert.equal(isSynced(agents), false);
    await until(() => isSynced(agents), "an answer");
  }
  const api = await fakeApi(json({}, 500));
  const deps = { client: api.client, log: silentLogger, namespace: "agents", onChange: () => {} };
  const agents = new AgentLeaseReader({ ...deps, silenceMs: SILENCE_MS, graceMs: GRACE_MS, now: () => START });
  t.after(async () => {
    await agents.stop();
    await api.close();
  });
  await until(() => api.calls.length > 1, "a second try");
  assert.equal(isSynced(agents), false);
});

const LEASES = "/apis/coordination.k8s.io/v1/namespaces/agents/leases";

/** A reader of Leases in memory. `renewed` has the time of each node's renewal, in milliseconds after `START`. */
async function reader(t: TestContext, renewed: Readonly<Record<string, number | undefined>>) {
  const kube = new MemoryKube();
  const put = (node: string, ms: number | undefined) =>
    kube.put(`${LEASES}/${agentLeaseName(node)}`, {
      metadata: { labels: AGENT_LEASE_LABELS, annotations: { "switchback.dev/revision": "r" } },
      spec: ms === undefined ? {} : { renewTime: microTime(START + ms) },
    });
  for (const [node, ms] of Object.entries(renewed)) put(node, ms);
  kube.put(`${LEASES}/somebodys`, { spec: { renewTime: microTime(START) } });
  const state = { now: START, changes: 0 };
  const agents = new AgentLeaseReader({
    client: kube.client,
    log: silentLogger,
    namespace: "agents",
    silenceMs: SILENCE_MS,
    graceMs: GRACE_MS,
    now: () => state.now,
    onChange: () => {
      state.changes += 1;
    },
  });
  t.after(() => agents.stop());
  await settled();
  return { kube, agents, state, put };
}

test("an agent is silent after its own time and the grace period; a future renewal counts from now", async (t) => {
  const renewed = { old: -SILENCE_MS + GRACE_MS + 5, young: -1_000, dead: -2 * SILENCE_MS, future: SILENCE_MS };
  const { agents, state } = await reader(t, { ...renewed, never: undefined });
  for (const [now, alive] of [
    [0, 5],
    [GRACE_MS, 3],
    [GRACE_MS + 5, 2],
    [SILENCE_MS - 1_000, 1],
    [SILENCE_MS, 0],
  ] as const) {
    state.now = START + now;
    assert.equal(agents.mapReaders, alive, `${now}`);
  }
  assert.equal(state.changes, 6, "one for each Lease of ours, and that all were read");
});

test("the watch's silence is reported until a stop ends the watch", async (t) => {
  const { kube, agents } = await reader(t, {});
  const { now } = performance;
  const later = t.mock.method(performance, "now", () => now.call(performance) + 60_000);
  assert.ok(agents.inactiveMs >= 60_000);
  later.mock.restore();
  assert.deepEqual(kube.watched, [LEASES]);
  await agents.stop();
  assert.deepEqual(kube.watched, []);
});

test("a renewal alone causes no call; a changed problem does, and so does an agent that comes back", async (t) => {
  const kube = new MemoryKube();
  const clock = { now: START };
  let news = 0;
  const path = `${agentLeasePath("agents")}/${agentLeaseName(NODE)}`;
  const renew = async (annotations: Record<string, string>) => {
    const metadata = { labels: AGENT_LEASE_LABELS, annotations };
    kube.put(path, { metadata, spec: { renewTime: microTime(clock.now) } });
    const before = news;
    await settled();
    return news - before;
  };
  const agents = new AgentLeaseReader({
    client: kube.client,
    log: silentLogger,
    namespace: "agents",
    silenceMs: SILENCE_MS,
    graceMs: GRACE_MS,
    now: () => clock.now,
    onChange: () => {
      news += 1;
    },
  });
  t.after(() => agents.stop());
  await settled();
  const steps: number[] = [];
  for (const [problem, passed] of [
    ["", 0],
    ["", 30_000],
    ["shop/web: file-busy", 30_000],
    ["", 30_000],
    ["", SILENCE_MS],
  ] as const) {
    clock.now += passed;
    steps.push(await renew({ "switchback.dev/problem": problem, "switchback.dev/revision": `r${clock.now}` }));
  }
  assert.deepEqual(steps, [1, 0, 1, 1, 1]);
  assert.equal(stateOf(agents), "alive");
  const counted: number[] = [];
  for (const annotations of [{}, { "switchback.dev/pod-revisions": "" }, { "switchback.dev/pod-revisions": "p1" }]) {
    await renew(annotations as Record<string, string>);
    counted.push(agents.mapReaders);
  }
  assert.deepEqual(counted, [1, 0, 1]);
  clock.now += SILENCE_MS + GRACE_MS;
  assert.equal(agents.mapReaders, 0, "it is silent");
  kube.remove(path);
  await settled();
  assert.deepEqual([news, stateOf(agents)], [6, "absent"]);
});
