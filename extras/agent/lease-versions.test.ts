import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLogger } from "#lib/telemetry/log.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { laterRelease } from "#test/later-release.ts";
import { AgentLeaseWriter } from "./lease-writer.ts";
import { AgentLeaseReader } from "./rollout/lease-reader.ts";

// Agents of a later release, whose Leases have another version, with a controller of this release.

const NAMESPACE = "agents";
const POD = { namespace: "shop", name: "web" };
const PROBLEM = { pod: "shop/web", reason: { code: "file-busy", text: "" } };

test("with a Lease of a later version, an agent is alive, and its problems are unknown", async () => {
  const load = laterRelease("extras/agent/agent-lease-format.ts", /const VERSION = "1"/, 'const VERSION = "2"');
  const { AgentLeaseWriter: Later } = await load<typeof import("./lease-writer.ts")>("extras/agent/lease-writer.ts");
  const kube = new MemoryKube();
  const now = () => Date.now();
  const deps = { client: kube.client, namespace: NAMESPACE, log: silentLogger, now };
  const reader = new AgentLeaseReader({ ...deps, silenceMs: 60_000, graceMs: 0, onChange: () => {} });
  for (const [Writer, node] of [
    [AgentLeaseWriter, "node-1"],
    [Later, "node-2"],
  ] as const) {
    const own = { renewMs: 60_000, spreadMs: () => 0, random: () => 0, daemonSet: () => undefined };
    const writer = new Writer({ ...deps, ...own, node, identity: node });
    writer.report({ applied: "r1", podRevisions: ["p1"], problems: [PROBLEM] });
    while (["absent", "unknown"].includes(reader.of({ ...POD, node }))) {
      await new Promise(setImmediate);
    }
    writer.stop();
  }
  assert.deepEqual(
    ["node-1", "node-2"].map((node) => reader.of({ ...POD, node })),
    ["problem", "alive"],
  );
  await reader.stop();
});
