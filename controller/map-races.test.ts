import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { KubeMapWriter } from "#lib/documents/map-writer.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { loopRig, stopClock } from "#test/fakes/loop-rig.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { OBJECTS, publishedIn } from "#test/published.ts";

// Answers and events of one API server have no order: they arrive on several connections.

const MAPS = "/api/v1/namespaces/sys/configmaps";
const PATH = `${MAPS}/${OBJECTS.map}`;

/** A replica with its own watch of the map. */
function replica(kube: MemoryKube, wrap: Partial<KubeClient> = {}) {
  const client = { ...kube.client, ...wrap } as KubeClient;
  const writer = new KubeMapWriter({ client, namespace: "sys", log: silentLogger, now: () => 0 });
  const rig = loopRig(writer);
  rig.addresses.earlier = rig.addresses.list;
  rig.loop.start(rig.leadership.signal);
  rig.source.sync();
  return rig;
}

function hosts(kube: MemoryKube): readonly string[] {
  return [...publishedIn([kube.at(PATH) ?? {}]).hosts.keys()];
}

async function led(t: TestContext, wrap?: (kube: MemoryKube) => Partial<KubeClient>) {
  const pass = stopClock(t);
  const kube = new MemoryKube();
  const rig = replica(kube, wrap?.(kube));
  rig.source.set("shop/a", "a.example.com");
  await pass(6_000);
  assert.deepEqual(hosts(kube), ["a.example.com"]);
  return { ...rig, kube, pass };
}

test("an edit that the leader sees before the answer to its own write is reverted", async (t) => {
  let answer = Promise.resolve();
  const { source, loop, kube, pass } = await led(t, ({ client }) => ({
    replace: async <T>(...args: Parameters<KubeClient["replace"]>): Promise<T> => {
      const written = await client.replace<T>(...args);
      await answer;
      return written;
    },
  }));
  const gate = Promise.withResolvers<void>();
  answer = gate.promise;
  source.set("shop/b", "b.example.com");
  await pass(100);
  kube.put(PATH, { ...kube.at(PATH), data: { hosts: "203.0.113.66 bank.example.com\n" } });
  await pass(100);
  gate.resolve();
  await pass(2_000);
  assert.deepEqual(hosts(kube), ["a.example.com", "b.example.com"]);
  const { length } = kube.writes;
  await pass(5_000);
  assert.equal(kube.writes.length, length, "nobody writes without a change");
  await loop.stop();
});

test("without a watch, a leader reverts an edit with its next change, and repeats no refused write", async (t) => {
  const { source, loop, kube, pass } = await led(t);
  kube.onRead = () => {};
  kube.refuse(MAPS, 503);
  kube.cut(MAPS);
  await pass(100);
  kube.put(PATH, { ...kube.at(PATH), data: { hosts: "203.0.113.66 bank.example.com\n" } });
  const before = kube.writes.length;
  source.set("shop/b", "b.example.com");
  await pass(3_000);
  assert.ok(kube.writes.length - before <= 4, `${kube.writes.length - before} writes`);
  kube.refuse(MAPS, undefined);
  await pass(10_000);
  assert.deepEqual(hosts(kube), ["a.example.com", "b.example.com"]);
  await loop.stop();
});
