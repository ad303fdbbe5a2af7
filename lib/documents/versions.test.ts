import assert from "node:assert/strict";
import { test } from "node:test";
import type { PublishedMap, Reason } from "#hostmap/types.ts";
import { hasCode } from "#lib/errors/errors.ts";
import { Fence } from "#lib/kube/fence.ts";
import { corePath } from "#lib/kube/paths.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { FakeClock, LineLog } from "#test/fakes/clock.ts";
import { snapshotOf, TestLeader } from "#test/fakes/map-leaders.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { laterRelease } from "#test/later-release.ts";
import { kubeMapReader, PATIENCE_MS, SETTLE_MS } from "./map-reader.ts";
import { kubeTargetsReader } from "./targets-reader.ts";
import { TargetsWriter } from "./targets-writer.ts";

// Tests two releases side by side: the writer of a later release, with another version of one document, and the readers
// of this release. The readers keep their last good state, and report the reason.

const NAMESPACE = "sys";
const NOW = snapshotOf("198.51.100.9 now.example.com\n");
const LATER = snapshotOf("198.51.100.9 later.example.com\n");
type Leaders = typeof import("#test/fakes/map-leaders.ts");

/** Publishes with this release and then with the later one. Returns the offers to a webhook, in order. */
async function offersOf(later: Leaders["TestLeader"]): Promise<string[]> {
  const kube = new MemoryKube();
  const [clock, lease] = [new FakeClock(), { holder: undefined }];
  const offers: Array<PublishedMap | Reason> = [];
  const startTimer = (callback: () => void, ms: number) => clock.after(ms, callback);
  const reader = kubeMapReader({ client: kube.client, namespace: NAMESPACE, log: silentLogger, startTimer });
  const subscription = reader.start((offer) => void offers.push(offer));
  for (const [Leader, snapshot] of [
    [TestLeader, NOW],
    [later, LATER],
  ] as const) {
    const leader = new Leader(kube.client, NAMESPACE, lease);
    await leader.synced();
    await leader.lead(snapshot);
    await clock.pass(PATIENCE_MS + SETTLE_MS);
    await leader.close();
  }
  await subscription.stop();
  return offers.map((offer) => ("code" in offer ? `${offer.code}: ${offer.text}` : [...offer.names].join()));
}

test("if an index has a later version, the reader keeps its map and reports the reason", async () => {
  const load = laterRelease(
    "lib/documents/map-format.ts",
    /version: VERSION, revision/,
    "version: VERSION + 1, revision",
  );
  const { TestLeader: Later } = await load<Leaders>("test/fakes/map-leaders.ts");
  assert.deepEqual(await offersOf(Later), [
    "now.example.com",
    "index-version: index.json has version 2; this release reads version 1",
  ]);
});

test("if a state has a later version, map readers continue, but a leader of this release refuses to lead", async () => {
  const load = laterRelease("lib/documents/map-format.ts", /"version":\$\{VERSION\}/, '"version":$${VERSION + 1}');
  const { TestLeader: Later } = await load<Leaders>("test/fakes/map-leaders.ts");
  assert.deepEqual(await offersOf(Later), ["now.example.com", "later.example.com"]);
  const kube = new MemoryKube();
  const lease = { holder: undefined };
  const later = new Later(kube.client, NAMESPACE, lease);
  await later.synced();
  await later.lead(LATER);
  const before = kube.writes.length;
  const leader = new TestLeader(kube.client, NAMESPACE, lease);
  await leader.synced();
  await assert.rejects(leader.begin(), (error) => {
    assert.ok(hasCode(error, "data-corrupt"));
    assert.match(error.message, /left as it is: state\.json has version 2; this release reads version 1/);
    return true;
  });
  assert.equal(kube.writes.length, before);
  for (const each of [later, leader]) await each.close();
});

test("if targets have a later version, a proxy keeps its targets and reports the reason", async () => {
  const load = laterRelease("lib/documents/targets-format.ts", /const VERSION = 1/, "const VERSION = 2");
  const { TargetsWriter: Later } = await load<typeof import("./targets-writer.ts")>("lib/documents/targets-writer.ts");
  const kube = new MemoryKube();
  const log = new LineLog();
  const found: string[] = [];
  const reader = kubeTargetsReader({ client: kube.client, namespace: NAMESPACE, log });
  const subscription = reader.start((targets) => void found.push(`${targets?.targets.map(({ name }) => name)}`));
  for (const [Writer, name] of [
    [TargetsWriter, "now"],
    [Later, "later"],
  ] as const) {
    const writer = new Writer({ client: kube.client, namespace: NAMESPACE, log: silentLogger });
    writer.start(() => {});
    while (!writer.synced) await new Promise(setImmediate);
    const fence = new Fence({ client: kube.client, log: silentLogger, term: { confirm: async () => {} } });
    await writer.take(fence);
    const ports = [{ port: 80, listenPort: 15_001, upstreamPort: 80, protocol: "v1" as const }];
    await writer.write([{ name, upstream: "web.edge.svc", ports, clusterIPs: [] }], fence);
    await new Promise(setImmediate);
    await writer.stop();
  }
  await subscription.stop();
  assert.match(JSON.stringify(kube.at(corePath("configmaps", NAMESPACE, "switchback-targets"))), /later/);
  assert.deepEqual([...new Set(found)], ["undefined", "now"]);
  assert.match(log.lines.at(-1)?.message ?? "", /version.*; the last good targets stay$/);
});
