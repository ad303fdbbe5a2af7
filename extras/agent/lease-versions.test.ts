import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLogger } from "#lib/telemetry/log.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { AgentLeaseWriter } from "./lease-writer.ts";
import { FORMAT_KEY } from "./metadata-keys.ts";
import { AgentLeaseReader } from "./rollout/lease-reader.ts";

// Agents of a later release, whose Leases have another version, with a controller of this release.

const NAMESPACE = "agents";

test("with a Lease of a later version, an agent is alive, and its revisions are unknown", async () => {
  const kube = new MemoryKube();
  /** Writes Leases of a later version. */
  const later: typeof kube.client = {
    ...kube.client,
    apply(path, object, options) {
      const text = JSON.stringify(object).replace(`"${FORMAT_KEY}":"1"`, `"${FORMAT_KEY}":"2"`);
      assert.ok(text.includes(`"${FORMAT_KEY}":"2"`));
      return kube.client.apply(path, JSON.parse(text), options);
    },
  };
  const now = () => Date.now();
  const deps = { client: kube.client, namespace: NAMESPACE, log: silentLogger, now };
  const reader = new AgentLeaseReader({ ...deps, silenceMs: 60_000, graceMs: 0, onChange: () => {} });
  for (const [client, node] of [
    [kube.client, "node-1"],
    [later, "node-2"],
  ] as const) {
    const own = { renewMs: 60_000, spreadMs: () => 0, random: () => 0, daemonSet: () => undefined };
    const writer = new AgentLeaseWriter({ ...deps, ...own, client, node, identity: node });
    writer.report({ applied: "r1", podRevisions: ["p1"], problems: [] });
    while (reader.of({ node }) === undefined || reader.of({ node }) === "unknown") {
      await new Promise(setImmediate);
    }
    writer.stop();
  }
  assert.deepEqual(reader.of({ node: "node-1" }), { alive: true, mapRevision: "r1", podRevisions: ["p1"] });
  assert.deepEqual(reader.of({ node: "node-2" }), { alive: true, mapRevision: undefined, podRevisions: undefined });
  await reader.stop();
});
