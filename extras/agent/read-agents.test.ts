import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { known, notKnown } from "#doctor/fact.ts";
import { parseConfig } from "#lib/config/parse.ts";
import { MemoryServer, refusal } from "#test/fakes/memory-server.ts";
import { AGENT_SECTIONS } from "./config.ts";
import { readAgents } from "./read-agents.ts";

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
  });

  test("are not known if Leases cannot be read", async () => {
    server.onCall = () => refusal(403, "Forbidden");
    assert.deepEqual(await readAgents(source()), missing);
  });
});

test("are read in the default namespace if the configuration cannot be read", async () => {
  assert.deepEqual(await readAgents({ ...source(), config: undefined }), known([]));
  assert.deepEqual(
    server.calls.map(({ path }) => path),
    [LEASES.replace("nodes", "switchback-agent")],
  );
});

describe("an agent counts as alive", () => {
  const stateOf = async (silentMs: number, config: typeof CONFIG | undefined) => {
    const metadata = { labels: LABELS, annotations: { "switchback.dev/revision": "r1" } };
    const spec = { renewTime: new Date(NOW - silentMs).toISOString() };
    const namespace = config === undefined ? "switchback-agent" : "nodes";
    server.add(LEASES.replace("nodes", namespace), "switchback-agent-node-1", { metadata, spec });
    const read = await readAgents({ ...source(), config });
    const [found] = read.known ? read.value : [];
    return found && [found.alive, found.mapRevision];
  };

  test("for as long as configured, to the millisecond", async () => {
    const config = { ...CONFIG, pods: { ...CONFIG.pods, agentSilenceSeconds: 40 } };
    assert.deepEqual(await stateOf(40_000, config), [true, "r1"]);
    assert.deepEqual(await stateOf(40_001, config), [false, "r1"]);
  });

  test("for ten minutes if the configuration cannot be read", async () => {
    assert.deepEqual(await stateOf(600_000, undefined), [true, "r1"]);
    assert.deepEqual(await stateOf(600_001, undefined), [false, "r1"]);
  });
});
