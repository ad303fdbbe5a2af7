import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { known, notKnown } from "#doctor/fact.ts";
import { gather } from "#doctor/gather.ts";
import { parseConfig } from "#lib/config/parse.ts";
import { addConfig } from "#test/fakes/installed.ts";
import { MemoryServer, refusal } from "#test/fakes/memory-server.ts";
import { AGENT_CHECK } from "./check.ts";
import { AGENT_SECTIONS } from "./config.ts";
import { readAgents, readUpdaters } from "./read-agents.ts";

const LEASES = "/apis/coordination.k8s.io/v1/namespaces/nodes/leases";
const NOW = Date.UTC(2026, 0, 1);
const LABELS = { "app.kubernetes.io/name": "switchback", "app.kubernetes.io/component": "agent" };
const CONFIG = parseConfig({ agent: { namespace: "nodes" } }, AGENT_SECTIONS);

let server: MemoryServer;
beforeEach(() => {
  server = new MemoryServer();
});

const source = () => ({ client: server.client, namespace: "ours", config: CONFIG, now: NOW });
const missing = notKnown("right-missing", "missing permission: list leases.coordination.k8s.io in the namespace nodes");

describe("agents", () => {
  test("count as silent since their Lease was renewed, or since 1970 without a renewal", async () => {
    const annotations = { "switchback.dev/revision": "r1" };
    const renewTime = new Date(NOW - 1500).toISOString();
    server.add(LEASES, "switchback-agent-a", { metadata: { labels: LABELS, annotations }, spec: { renewTime } });
    server.add(LEASES, "switchback-agent-b", { metadata: { labels: LABELS } });
    server.add(LEASES, "switchback-controller", { spec: { renewTime } });
    const agents = [
      { name: "switchback-agent-a", mapRevision: "r1", podRevisions: undefined, silentMs: 1500, alive: true },
      { name: "switchback-agent-b", mapRevision: undefined, podRevisions: undefined, silentMs: NOW, alive: false },
    ];
    assert.deepEqual(await readAgents(source()), known(agents));
    const updaters = await readUpdaters(source());
    assert.deepEqual(updaters.known && updaters.value.all, agents);
  });

  test("are not known if Leases cannot be read", async () => {
    server.onCall = () => refusal(403, "Forbidden");
    assert.deepEqual([await readAgents(source()), await readUpdaters(source())], [missing, missing]);
  });
});

describe("if a pod is live, the doctor reads the agents' Leases", () => {
  const added = { sections: AGENT_SECTIONS, checks: [AGENT_CHECK] };
  const run = async (config: string) => {
    server.add("/api/v1/namespaces", "shop", { metadata: { labels: { "switchback.dev/inject": "enabled" } } });
    addConfig(server, { "config.yaml": config });
    const live = { metadata: { annotations: { "switchback.dev/on-change": "live" } } };
    server.add("/api/v1/namespaces/shop/pods", "live", live);
    const options = { client: server.client, namespace: "ours", probeNamespace: "probes", now: () => NOW };
    const { updaters } = await gather({ ...options, added });
    const asked = server.calls.map(({ path }) => path).filter((path) => path.includes("/leases"));
    return { asked, all: updaters?.known === true ? updaters.value.all : undefined };
  };

  test("in the configured namespace", async () => {
    const spec = { renewTime: new Date(NOW - 5).toISOString() };
    server.add(LEASES, "switchback-agent-a", { metadata: { labels: LABELS }, spec });
    assert.deepEqual(await run("agent: { namespace: nodes }"), {
      asked: [LEASES],
      all: [{ name: "switchback-agent-a", mapRevision: undefined, podRevisions: undefined, silentMs: 5, alive: true }],
    });
  });

  test("in the default namespace if the configuration cannot be read", async () => {
    assert.deepEqual(await run("unheard: 1"), { asked: [LEASES.replace("nodes", "switchback-agent")], all: [] });
  });
});

describe("an agent updates the pods of its node", () => {
  const stateOf = async (silentMs: number, config: typeof CONFIG | undefined, node = "node-1") => {
    const metadata = { labels: LABELS, annotations: { "switchback.dev/revision": "r1" } };
    const spec = { renewTime: new Date(NOW - silentMs).toISOString() };
    const namespace = config === undefined ? "switchback-agent" : "nodes";
    server.add(LEASES.replace("nodes", namespace), "switchback-agent-node-1", { metadata, spec });
    const read = await readUpdaters({ ...source(), config });
    const found = read.known ? read.value.of(node) : undefined;
    return found && [found.alive, found.mapRevision];
  };

  test("for as long as configured, to the millisecond", async () => {
    const config = { ...CONFIG, pods: { ...CONFIG.pods, agentSilenceSeconds: 30 } };
    assert.deepEqual(await stateOf(30_000, config), [true, "r1"]);
    assert.deepEqual(await stateOf(30_001, config), [false, "r1"]);
  });

  test("for ten minutes if the configuration cannot be read", async () => {
    assert.deepEqual(await stateOf(600_000, undefined), [true, "r1"]);
    assert.deepEqual(await stateOf(600_001, undefined), [false, "r1"]);
  });

  test("and of no other", async () => assert.equal(await stateOf(0, CONFIG, "node-2"), undefined));
});
