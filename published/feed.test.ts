import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { mapRevision, Shards } from "../hosts/shards.ts";
import type { PublishedMap, Reason } from "../hosts/types.ts";
import type { KubeClient } from "../kube/client.ts";
import type { Query } from "../kube/paths.ts";
import type { StreamOptions } from "../kube/stream.ts";
import { silentLogger } from "../observe/log.ts";
import { configMapSource } from "./feed.ts";

interface ConfigMap {
  metadata: { name: string; namespace: string; uid: string; resourceVersion: string };
  data?: Record<string, string>;
}

/** ConfigMaps of one namespace behind the two calls that a watch makes. */
function fakeCluster() {
  const objects = new Map<string, ConfigMap>();
  const asked: Array<{ path: string; query: Query | undefined }> = [];
  let version = 1;
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
  return { client, asked, put, remove, opened: opened.promise };
}

function publish(cluster: ReturnType<typeof fakeCluster>, names: readonly string[]): string {
  const shards = new Shards();
  for (const name of names) shards.set(name, ["198.51.100.9"]);
  const rendered = shards.render();
  for (const { index, text } of rendered) cluster.put(`switchback-hosts-${index}`, { hosts: text });
  const revision = mapRevision(rendered);
  const index = {
    revision,
    targets: [],
    shards: rendered.map((shard) => ({ name: `switchback-hosts-${shard.index}`, revision: shard.revision })),
  };
  cluster.put("switchback-hosts", { "index.json": JSON.stringify(index) });
  return revision;
}

function start(cluster: ReturnType<typeof fakeCluster>) {
  const waiting: Array<(offer: PublishedMap | Reason) => void> = [];
  const offers: Array<PublishedMap | Reason> = [];
  const next = (): Promise<PublishedMap | Reason> => {
    const offer = offers.shift();
    return offer !== undefined ? Promise.resolve(offer) : new Promise((resolve) => waiting.push(resolve));
  };
  const feed = configMapSource({
    client: cluster.client,
    namespace: "sys",
    log: silentLogger,
    // Short, and in the order that the real ones have.
    startTimer: (callback, ms) => {
      const timer = setTimeout(callback, ms > 1_000 ? 50 : 1);
      return { cancel: () => clearTimeout(timer) };
    },
  }).start((offer) => {
    const waiter = waiting.shift();
    if (waiter === undefined) offers.push(offer);
    else waiter(offer);
  });
  return { feed, next, offers };
}

async function nextMap(next: () => Promise<PublishedMap | Reason>): Promise<PublishedMap> {
  const offer = await next();
  assert.ok("revision" in offer, JSON.stringify(offer));
  return offer;
}

test("the map is read from the labelled ConfigMaps of our namespace, and followed", async () => {
  const cluster = fakeCluster();
  const first = publish(cluster, ["a.example.com", "b.example.com"]);
  const { feed, next } = start(cluster);
  const map = await nextMap(next);
  assert.equal(map.revision, first);
  assert.deepEqual(map.names, ["a.example.com", "b.example.com"]);
  assert.deepEqual(map.addressesOf("a.example.com"), ["198.51.100.9"]);
  await cluster.opened;
  const second = publish(cluster, ["a.example.com", "c.example.com"]);
  const followed = await nextMap(next);
  assert.equal(followed.revision, second);
  assert.deepEqual(followed.names, ["a.example.com", "c.example.com"]);
  for (const { path, query } of cluster.asked) {
    assert.equal(path, "/api/v1/namespaces/sys/configmaps");
    assert.equal(query?.labelSelector, "switchback.dev/map=hosts");
  }
  await feed.stop();
});

test("a deleted index, a deleted shard and an edited shard are said and take nothing away", async () => {
  const cluster = fakeCluster();
  publish(cluster, ["a.example.com"]);
  const { feed, next } = start(cluster);
  await nextMap(next);
  await cluster.opened;
  for (const [breakIt, code] of [
    [() => cluster.remove("switchback-hosts"), "index-missing"],
    [() => cluster.remove("switchback-hosts-0"), "shard-missing"],
    [() => cluster.put("switchback-hosts-0", { hosts: "198.51.100.9 other.example.com\n" }), "shard-other-revision"],
    [() => cluster.put("switchback-hosts-0", {}), "shard-other-revision"],
  ] as const) {
    breakIt();
    const offer = await next();
    assert.equal("code" in offer && offer.code, code);
    publish(cluster, ["a.example.com"]);
    assert.deepEqual((await nextMap(next)).names, ["a.example.com"]);
  }
  await feed.stop();
});

test("a ConfigMap that carries the label and is none of ours is passed over", async () => {
  const cluster = fakeCluster();
  cluster.put("somebody-elses", { hosts: "198.51.100.9 stranger.example.com\n" });
  cluster.put("switchback-hostsX", { hosts: "198.51.100.9 stranger.example.com\n" });
  const { feed, next } = start(cluster);
  const nothing = await next();
  assert.equal("code" in nothing && nothing.code, "index-missing");
  publish(cluster, ["a.example.com"]);
  for (let offer = await next(); ; offer = await next()) {
    if (!("revision" in offer)) continue;
    assert.deepEqual(offer.names, ["a.example.com"]);
    break;
  }
  await feed.stop();
});
