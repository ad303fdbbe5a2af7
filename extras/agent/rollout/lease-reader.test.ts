import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { microTime } from "#lib/kube/lease.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { type FakeCall, fakeApi, json, page, refuse, until } from "#test/fakes/kube-api.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { settled } from "#test/fakes/stopped-time.ts";
import { AGENT_LEASE_LABELS, agentLeaseName, agentLeasePath } from "../agent-lease-format.ts";
import { AgentLeaseReader } from "./lease-reader.ts";

const NODE = "node-1";
const START = Date.parse("2026-01-01T00:00:00Z");
const SILENCE_MS = 600_000;
const GRACE_MS = 60_000;

function lease(renewedAt: number, revision: string, version: number) {
  return {
    metadata: {
      namespace: "agents",
      name: agentLeaseName(NODE),
      uid: "uid-1",
      resourceVersion: `${version}`,
      labels: AGENT_LEASE_LABELS,
      annotations: { "switchback.dev/revision": revision },
    },
    spec: { renewTime: microTime(renewedAt) },
  };
}

/** The state of an agent. Undefined also while the Leases are not known. */
function stateOf(agents: AgentLeaseReader) {
  const state = agents.of({ node: NODE });
  return state === "unknown" ? undefined : state;
}

const isSynced = (agents: AgentLeaseReader) => agents.of({ node: NODE }) !== "unknown";

/**
 * A controller's view of one agent, whose Lease was renewed at `renewedAt`. The clock stands still unless a test
 * moves it.
 */
async function listening(t: TestContext, renewedAt: number) {
  const clock = { now: START };
  let current = lease(renewedAt, "first", 1);
  let watches: FakeCall[] = [];
  let isAway = false;
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
    onChange: () => {},
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
        return stateOf(agents)?.alive === false;
      }, "silence");
    },
    async renew(at: number, revision: string) {
      current = lease(at, revision, Number(current.metadata.resourceVersion) + 1);
      say("MODIFIED");
      await until(() => stateOf(agents)?.mapRevision === revision, "the renewal");
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
  const { agents, clock, of, fallsSilent, renew } = await listening(t, START);
  await fallsSilent();
  await renew(clock.now, "second");
  const end = clock.now + SILENCE_MS;
  assert.equal(agents.nextSilence(), end);
  clock.now = end - 1;
  assert.deepEqual(of(), { alive: true, mapRevision: "second", podRevisions: undefined });
  clock.now = end;
  assert.deepEqual(of(), { alive: false, mapRevision: "second", podRevisions: undefined });
  assert.equal(agents.nextSilence(), undefined);
});

test("a renewal counts from when it is heard, whatever the node's clock says", async (t) => {
  const { clock, of, fallsSilent, renew } = await listening(t, START);
  await fallsSilent();
  for (const wrong of [START - 86_400_000, START + 10 * 86_400_000]) {
    await renew(wrong, `at ${wrong}`);
    clock.now += SILENCE_MS - 1;
    assert.equal(of()?.alive, true);
    clock.now += 1;
    assert.equal(of()?.alive, false);
  }
});

test("a Lease that is written without a renewal brings its revision, but the agent stays silent", async (t) => {
  const { of, fallsSilent, renew } = await listening(t, START);
  await fallsSilent();
  await renew(START, "second");
  assert.deepEqual(of(), { alive: false, mapRevision: "second", podRevisions: undefined });
});

test("for an agent that was silent for long, a new reader waits only for the grace period", async (t) => {
  const { clock, fallsSilent, renew, of } = await listening(t, START - 86_400_000);
  await fallsSilent(GRACE_MS / 10);
  assert.ok(clock.now >= START + GRACE_MS, `${clock.now - START} ms`);
  await renew(clock.now, "second");
  assert.deepEqual(of(), { alive: true, mapRevision: "second", podRevisions: undefined });
});

test("while the API server is away, no agent is silent; after that, each agent has one grace period", async (t) => {
  const { clock, of, fallsSilent, away, back } = await listening(t, START);
  await fallsSilent();
  away();
  await until(() => of()?.alive === true, "the outage to be noticed");
  clock.now += 2 * SILENCE_MS;
  assert.equal(of()?.alive, true);
  back();
  const before = clock.now;
  await fallsSilent(GRACE_MS / 10);
  assert.ok(clock.now >= before + GRACE_MS, `${clock.now - before} ms`);
});

test("a node has no agent if its Lease was deleted or never seen", async (t) => {
  const { agents, of, fallsSilent, remove } = await listening(t, START);
  await fallsSilent();
  assert.equal(agents.of({ node: "node-2" }), undefined);
  remove();
  await until(() => of() === undefined, "the deletion");
  assert.equal(agents.nextSilence(), undefined);
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
  const put = (node: string, ms: number | undefined, revision = "r") =>
    kube.put(`${LEASES}/${agentLeaseName(node)}`, {
      metadata: { labels: AGENT_LEASE_LABELS, annotations: { "switchback.dev/revision": revision } },
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

test("the next silence is that of the Lease renewed longest ago, or the end of the grace period", async (t) => {
  const { agents, state } = await reader(t, { old: -SILENCE_MS + GRACE_MS + 5, young: -1_000, dead: -2 * SILENCE_MS });
  assert.equal(agents.nextSilence(), START + GRACE_MS);
  state.now = START + GRACE_MS;
  assert.equal(agents.nextSilence(), START + GRACE_MS + 5);
  state.now = START + GRACE_MS + 5;
  assert.equal(agents.nextSilence(), START + SILENCE_MS - 1_000);
  state.now = START + SILENCE_MS - 1_000;
  assert.equal(agents.nextSilence(), undefined);
  assert.equal(state.changes, 4, "one for each Lease of ours, and that all were read");
});

test("a Lease with a future renewal counts from now; a Lease without a renewal counts as silent", async (t) => {
  const { agents, state } = await reader(t, { future: SILENCE_MS, never: undefined });
  state.now = START + GRACE_MS;
  assert.equal(agents.nextSilence(), START + SILENCE_MS);
  state.now = START + SILENCE_MS;
  assert.equal(agents.nextSilence(), undefined);
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

test("a renewal alone causes no call; a changed report does, and so does an agent that comes back", async (t) => {
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
  for (const [revision, list, passed] of [
    ["r1", "p1", 0],
    ["r1", "p1", 30_000],
    ["r2", "p1", 30_000],
    ["r2", "p1 p2", 30_000],
    ["r2", "p1 p2", SILENCE_MS],
  ] as const) {
    clock.now += passed;
    steps.push(await renew({ "switchback.dev/revision": revision, "switchback.dev/pod-revisions": list }));
  }
  assert.deepEqual(steps, [1, 0, 1, 1, 1]);
  assert.deepEqual(stateOf(agents), { alive: true, mapRevision: "r2", podRevisions: ["p1", "p2"] });
  const none = { "switchback.dev/pod-revisions": "" };
  assert.deepEqual([agents.mapReaders, await renew(none), agents.mapReaders], [1, 1, 0]);
  assert.deepEqual([await renew({ "switchback.dev/revision": "r2" }), agents.mapReaders], [1, 1]);
  clock.now += SILENCE_MS + GRACE_MS;
  assert.equal(agents.mapReaders, 0, "it is silent");
  kube.remove(path);
  await settled();
  assert.deepEqual([news, stateOf(agents)], [8, undefined]);
});
