import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { microTime } from "../kube/lease-record.ts";
import { silentLogger } from "../telemetry/log.ts";
import { type FakeCall, fakeApi, json, page, refuse, until } from "../test/fakes/kube-api.ts";
import { AGENT_LEASE_LABELS, agentLeaseName } from "./agent-lease-format.ts";
import { AgentLeaseReader } from "./agent-lease-reader.ts";

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

/** A controller's view of one agent, whose Lease was renewed at `renewedAt`; the clock stands still unless it is moved. */
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
    of: () => agents.of(NODE),
    /** Lets time pass, in such steps, until the agent counts as silent: who does not hear the API server never says so. */
    async fallsSilent(stepMs = 2 * SILENCE_MS) {
      await until(() => {
        clock.now += stepMs;
        return agents.of(NODE)?.alive === false;
      }, "silence");
    },
    async renew(at: number, revision: string) {
      current = lease(at, revision, Number(current.metadata.resourceVersion) + 1);
      say("MODIFIED");
      await until(() => agents.of(NODE)?.mapRevision === revision, "the renewal");
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

test("an agent whose Lease was renewed is alive until it was silent for long enough", async (t) => {
  const { agents, clock, of, fallsSilent, renew } = await listening(t, START);
  await fallsSilent();
  await renew(clock.now, "second");
  const end = clock.now + SILENCE_MS;
  assert.equal(agents.nextSilence(), end);
  clock.now = end - 1;
  assert.deepEqual(of(), { alive: true, mapRevision: "second" });
  clock.now = end;
  assert.deepEqual(of(), { alive: false, mapRevision: "second" });
  assert.equal(agents.nextSilence(), undefined);
});

test("renewals count from when they are heard, whatever the node's clock says", async (t) => {
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

test("a Lease that is written without being renewed tells its revision, and no more", async (t) => {
  const { of, fallsSilent, renew } = await listening(t, START);
  await fallsSilent();
  await renew(START, "second");
  assert.deepEqual(of(), { alive: false, mapRevision: "second" });
});

test("an agent that was silent for long has one grace from whoever begins to listen, and not the whole time again", async (t) => {
  const { clock, fallsSilent, renew, of } = await listening(t, START - 86_400_000);
  await fallsSilent(GRACE_MS / 10);
  assert.ok(clock.now >= START + GRACE_MS, `${clock.now - START} ms`);
  await renew(clock.now, "second");
  assert.deepEqual(of(), { alive: true, mapRevision: "second" });
});

test("an API server that is away makes nobody silent; once it is back each agent has one grace", async (t) => {
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

test("a node whose Lease is deleted has no agent, and neither has one that nobody told of", async (t) => {
  const { agents, of, fallsSilent, remove } = await listening(t, START);
  await fallsSilent();
  assert.equal(agents.of("node-2"), undefined);
  remove();
  await until(() => of() === undefined, "the deletion");
  assert.equal(agents.nextSilence(), undefined);
});

test("that all Leases were read is known after the list, and when they may not be read", async (t) => {
  for (const respond of [page([], "1"), refuse(403, "Forbidden")]) {
    const api = await fakeApi(respond);
    const deps = { client: api.client, log: silentLogger, namespace: "agents", onChange: () => {} };
    const agents = new AgentLeaseReader({ ...deps, silenceMs: SILENCE_MS, graceMs: GRACE_MS, now: () => START });
    t.after(async () => {
      await agents.stop();
      await api.close();
    });
    assert.equal(agents.synced, false);
    await until(() => agents.synced, "an answer");
  }
  const api = await fakeApi(json({}, 500));
  const deps = { client: api.client, log: silentLogger, namespace: "agents", onChange: () => {} };
  const agents = new AgentLeaseReader({ ...deps, silenceMs: SILENCE_MS, graceMs: GRACE_MS, now: () => START });
  t.after(async () => {
    await agents.stop();
    await api.close();
  });
  await until(() => api.calls.length > 1, "a second try");
  assert.equal(agents.synced, false);
});
