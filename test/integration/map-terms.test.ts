import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { isShardName, MAP_SELECTOR, type MapConfigMap } from "#lib/documents/map-format.ts";
import { type ConnectedClient, connect } from "#lib/kube/connect.ts";
import { corePath } from "#lib/kube/paths.ts";
import { type ControlPlane, startControlPlane } from "../cluster/controlplane.ts";
import { snapshotOf, TestLeader, type TestLease } from "../fakes/map-leaders.ts";

const TRIES = 200;
const CONFIG_MAPS = corePath("configmaps", "default");

let cluster: ControlPlane;
let client: ConnectedClient;
before(async () => {
  cluster = await startControlPlane();
  client = await connect({ kubeconfig: cluster.adminKubeconfig });
});
after(async () => {
  client?.close();
  await cluster?.stop();
});

/** Versions of the map's ConfigMaps by their names. */
async function versions(): Promise<Map<string, string>> {
  const { items } = await client.list<MapConfigMap>(CONFIG_MAPS, { labelSelector: MAP_SELECTOR });
  return new Map(items.map(({ metadata }) => [metadata.name, `${metadata.uid}/${metadata.resourceVersion}`]));
}

/** A map with `count` shards. The text of each has the number of the round. */
const mapAt = (round: number, count: number) =>
  snapshotOf(...Array.from({ length: count }, (_, at) => `198.51.100.9 r${round}-s${at}.example.com\n`));

it("a leader that pauses before any write and continues while another leads changes none of its objects", async () => {
  const taken: string[] = [];
  const lease: TestLease = { holder: undefined };
  let refused = 0;
  let next = new TestLeader(client, "default", lease);
  await next.synced();
  await next.lead(mapAt(0, 2));
  for (let round = 1; round <= TRIES; round += 1) {
    const [leader, other] = [next, new TestLeader(client, "default", lease)];
    await other.synced();
    leader.stopAfter(round % 9);
    const work = leader.publish(mapAt(round, 2 + (round % 3)));
    await leader.stopped(work);
    // The other leader publishes, or finds nothing to publish.
    await (round % 2 === 0 ? other.lead(mapAt(-round, 2)) : other.begin());
    const there = await versions();
    leader.resume();
    await work;
    const now = await versions();
    for (const [name, version] of there)
      if (now.get(name) !== version)
        taken.push(`${round}: ${name} was ${version}, is ${now.get(name)}; ${leader.late}`);
    // A shard that does not exist may be created: no index names it, and the next publication deletes it.
    for (const name of now.keys()) if (!there.has(name)) assert.ok(isShardName(name), name);
    refused += leader.late.filter((each) => !each.endsWith("taken")).length;
    await leader.close();
    await other.publish(mapAt(round + TRIES, 2));
    next = other;
  }
  await next.close();
  assert.deepEqual(taken, []);
  assert.ok(refused > TRIES / 4, `${refused} writes were refused`);
});
