import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import type { PublishedMap, Reason } from "#hostmap/types.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { Query } from "#lib/kube/paths.ts";
import type { StreamOptions } from "#lib/kube/stream.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { FakeClock } from "#test/fakes/clock.ts";
import { renderIndex } from "./map-format.ts";
import { kubeMapReader, PATIENCE_MS, SETTLE_MS } from "./map-reader.ts";
import { mapRevisionOf, Shards } from "./shards.ts";

interface ConfigMap {
  metadata: { name: string; namespace: string; uid: string; resourceVersion: string };
  data?: Record<string, string>;
}

/** ConfigMaps of one namespace, served by the two calls that a watch makes. */
function fakeCluster() {
  const objects = new Map<string, ConfigMap>();
  const asked: Array<{ path: string; query: Query | undefined }> = [];
  let version = 1;
  let closed = false;
  let send: ((line: string) => void) | undefined;
  const opened = Promise.withResolvers<void>();
  const client: Pick<KubeClient, "get" | "stream"> = {
    async get<T>(path: string, query?: Query) {
      asked.push({ path, query });
      return { metadata: { resourceVersion: String(version) }, items: [...objects.values()] } as T;
    },
    async stream(path: string, query: Query, options: StreamOptions) {
      asked.push({ path, query });
      send = options.onLine;
      options.onOpen?.();
      opened.resolve();
      await once(options.signal, "abort");
      closed = true;
      throw options.signal.reason;
    },
  };
  const put = (name: string, data: Record<string, string>): void => {
    version += 1;
    const type = objects.has(name) ? "MODIFIED" : "ADDED";
    const object = { metadata: { name, namespace: "sys", uid: name, resourceVersion: String(version) }, data };
    objects.set(name, object);
    send?.(JSON.stringify({ type, object }));
  };
  const remove = (name: string): void => {
    version += 1;
    const object = objects.get(name);
    objects.delete(name);
    if (object === undefined) return;
    object.metadata.resourceVersion = String(version);
    send?.(JSON.stringify({ type: "DELETED", object }));
  };
  return { client, asked, put, remove, opened: opened.promise, closed: () => closed };
}

function publish(cluster: ReturnType<typeof fakeCluster>, names: readonly string[]): string {
  const shards = new Shards();
  for (const name of names) shards.set(name, ["198.51.100.9"]);
  const rendered = shards.render();
  for (const { index, text } of rendered) cluster.put(`switchback-hosts-${index}`, { hosts: text });
  const revision = mapRevisionOf(rendered);
  const named = rendered.map((shard) => ({ name: `switchback-hosts-${shard.index}`, revision: shard.shardHash }));
  cluster.put("switchback-hosts-index", { "index.json": renderIndex({ revision, shards: named }) });
  return revision;
}

/** A feed that has read everything, on a stopped clock. */
async function start(cluster: ReturnType<typeof fakeCluster>) {
  const clock = new FakeClock();
  const offers: Array<PublishedMap | Reason> = [];
  const feed = kubeMapReader({
    client: cluster.client,
    namespace: "sys",
    log: silentLogger,
    startTimer: (callback, ms) => clock.after(ms, callback),
  }).start((offer) => void offers.push(offer));
  await cluster.opened;
  const pass = (ms: number) => clock.pass(ms);
  /** Returns the single offer since the last call. */
  const only = (): PublishedMap | Reason => {
    const [offer, ...more] = offers.splice(0);
    assert.ok(offer !== undefined && more.length === 0, `${more.length} more`);
    return offer;
  };
  return { feed, only, offers, pass, clock };
}

function mapOf(offer: PublishedMap | Reason): PublishedMap {
  assert.ok("revision" in offer, JSON.stringify(offer));
  return offer;
}

test("the map is read from the labelled ConfigMaps of our namespace, and followed", async () => {
  const cluster = fakeCluster();
  const first = publish(cluster, ["a.example.com", "b.example.com"]);
  const { feed, only, pass } = await start(cluster);
  await pass(SETTLE_MS);
  const map = mapOf(only());
  assert.equal(map.revision, first);
  assert.deepEqual(map.names, ["a.example.com", "b.example.com"]);
  assert.deepEqual(map.addressesOf("a.example.com"), ["198.51.100.9"]);
  const second = publish(cluster, ["a.example.com", "c.example.com"]);
  await pass(SETTLE_MS);
  const followed = mapOf(only());
  assert.equal(followed.revision, second);
  assert.deepEqual(followed.names, ["a.example.com", "c.example.com"]);
  for (const { path, query } of cluster.asked) {
    assert.equal(path, "/api/v1/namespaces/sys/configmaps");
    assert.equal(query?.labelSelector, "switchback.dev/map=hosts");
  }
  await feed.stop();
});

test("a deleted index, a deleted shard and an edited shard are reported later, and remove no names", async () => {
  const cluster = fakeCluster();
  publish(cluster, ["a.example.com"]);
  const { feed, only, offers, pass } = await start(cluster);
  await pass(SETTLE_MS);
  mapOf(only());
  for (const [breakIt, code] of [
    [() => cluster.remove("switchback-hosts-index"), "index-missing"],
    [() => cluster.remove("switchback-hosts-0"), "shard-missing"],
    [() => cluster.put("switchback-hosts-0", { hosts: "198.51.100.9 other.example.com\n" }), "shard-other-revision"],
    [() => cluster.put("switchback-hosts-0", {}), "shard-other-revision"],
  ] as const) {
    breakIt();
    await pass(SETTLE_MS + PATIENCE_MS - 1);
    assert.deepEqual(offers, []);
    await pass(1);
    const offer = only();
    assert.equal("code" in offer && offer.code, code);
    publish(cluster, ["a.example.com"]);
    await pass(SETTLE_MS);
    assert.deepEqual(mapOf(only()).names, ["a.example.com"]);
  }
  await feed.stop();
});

test("a ConfigMap of somebody else with our label is ignored", async () => {
  const cluster = fakeCluster();
  cluster.put("somebody-elses", { hosts: "198.51.100.9 stranger.example.com\n" });
  for (const suffix of ["X", "-evil", "-", "-00", "-1024", "-0-1"]) {
    cluster.put(`switchback-hosts${suffix}`, { hosts: "198.51.100.9 stranger.example.com\n" });
  }
  const { feed, only, pass } = await start(cluster);
  await pass(PATIENCE_MS);
  const nothing = only();
  assert.equal("code" in nothing && nothing.code, "index-missing");
  publish(cluster, ["a.example.com"]);
  await pass(SETTLE_MS);
  assert.deepEqual(mapOf(only()).names, ["a.example.com"]);
  await feed.stop();
});

test("after stop, its watch and its timers end, and it offers nothing more", async () => {
  const cluster = fakeCluster();
  const { feed, offers, pass, clock } = await start(cluster);
  await pass(0);
  publish(cluster, ["a.example.com"]);
  assert.equal(clock.pending, 2);
  await feed.stop();
  assert.equal(clock.pending, 0);
  assert.equal(cluster.closed(), true);
  await pass(PATIENCE_MS);
  assert.deepEqual(offers, []);
});

test("the inactivity of its watch is visible", async (t) => {
  const { now } = performance;
  const cluster = fakeCluster();
  const { feed } = await start(cluster);
  t.mock.method(performance, "now", () => now.call(performance) + 60_000);
  assert.ok((feed.inactiveMs?.() ?? 0) >= 60_000);
  t.mock.restoreAll();
  await feed.stop();
});
