import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { KubeMapWriter } from "#lib/documents/map-writer.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { claimOf } from "#test/arbitraries.ts";
import { IP, loopRig, stopClock } from "#test/fakes/loop-rig.ts";
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
  rig.loop.start();
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
  rig.loop.lead(rig.leadership.signal);
  await pass(1_000);
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

test("a new leader whose watch is late starts from the map that the former leader wrote last", async (t) => {
  const pass = stopClock(t);
  const kube = new MemoryKube();
  const late: (() => void)[] = [];
  let isLate = false;
  const next = replica(kube, {
    stream: (path, query, { onLine, ...options }) =>
      kube.client.stream(path, query, {
        ...options,
        onLine: (line) => {
          if (isLate) late.push(() => onLine(line));
          else onLine(line);
        },
      }),
  });
  const former = replica(kube);
  const both = [former, next];
  for (const { source } of both) source.set("shop/a", "a.example.com");
  former.loop.lead(former.leadership.signal);
  await pass(1_000);
  isLate = true;
  const claim = (namespace: string, created: string) =>
    both.map(({ source }) =>
      source.sink(`${namespace}/web`, [claimOf("z.example.com", `${namespace}/web`, { created })]),
    );
  claim("shop", "2026-01-01T00:00:00Z");
  await pass(1_000);
  for (const { source } of both) source.set("shop/b", "b.example.com");
  await pass(1_000);
  // An object with the same target that is older, from the copy of another cluster.
  claim("tenant", "2020-01-01T00:00:00Z");
  await pass(1_000);
  const before = publishedIn([kube.at(PATH) ?? {}]);
  assert.deepEqual(
    [...before.hosts],
    [
      ["a.example.com", [IP]],
      ["z.example.com", [IP]],
      ["b.example.com", [IP]],
    ],
  );
  assert.equal(before.holders.get("z.example.com"), "shop");
  former.leadership.abort();
  next.loop.lead(next.leadership.signal);
  await pass(150);
  isLate = false;
  for (const deliver of late.splice(0)) deliver();
  await pass(5_000);
  const after = publishedIn([kube.at(PATH) ?? {}]);
  assert.deepEqual([...after.hosts.keys()], [...before.hosts.keys()], "the names keep their order");
  assert.equal(after.holders.get("z.example.com"), "shop");
  await Promise.all(both.map(({ loop }) => loop.stop()));
});
