import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { shortHash } from "#hostmap/hash.ts";
import { MAP_REVISION_KEY, MAP_VERSION_KEY } from "#hostmap/metadata-keys.ts";
import type { MapObject } from "#lib/documents/map-format.ts";
import { isMap } from "#lib/documents/published-map.ts";
import { claimOf } from "#test/arbitraries.ts";
import { IP, leader, loopRig, mapped, names, published, stopClock, TestStore } from "#test/fakes/loop-rig.ts";

for (const missing of ["source", "addresses", "store"] as const) {
  test(`nothing is published before the ${missing} has delivered its first full view`, async (t) => {
    const pass = stopClock(t);
    const { loop, source, addresses, store, leadership } = loopRig();
    addresses.synced = missing !== "addresses";
    store.isSynced = missing !== "store";
    loop.start(leadership.signal);
    source.set("shop/web", "a.example.com");
    if (missing !== "source") source.sync();
    await pass(5_000);
    assert.deepEqual(store.writes, []);
    assert.equal(loop.synced, false);
    addresses.synced = true;
    store.isSynced = true;
    if (missing === "source") source.sync();
    else addresses.move(IP);
    await pass(10);
    assert.deepEqual(published(store), mapped(["a.example.com"]));
    assert.equal(loop.synced, true);
  });
}

test("a change is one write; an equal change is none", async (t) => {
  const { source, store, publications, pass } = await leader(t, names(3));
  source.set("shop/new", "new.example.com");
  await pass(10);
  source.set("shop/new", "new.example.com");
  await pass(60_000);
  assert.equal(store.writes.length, 1);
  assert.equal(publications.length, 1);
});

test("a leader offers restarts each map once: what it finds published, and what it has written", async (t) => {
  const { store, pass } = await leader(t, names(3));
  const { loop, source, leadership } = loopRig(store);
  const offered: unknown[] = [];
  loop.maps.start((offer) => {
    assert.ok(isMap(offer));
    const sameAsStored = offer.revision === store.current?.metadata.annotations?.[MAP_REVISION_KEY];
    offered.push([sameAsStored, ...offer.lines.keys()]);
  });
  loop.start(leadership.signal);
  for (const name of names(3)) source.set(`shop/${name}`, name);
  source.sync();
  await pass(5_000);
  assert.deepEqual([offered, store.writes.length], [[[true, ...names(3)]], 0]);
  store.onWrite = () => {
    throw new Error("refused");
  };
  source.set("shop/new", "new.example.com");
  await pass(100);
  assert.equal(offered.length, 1, "a map that could not be written is not offered");
  store.onWrite = () => {};
  await pass(20_000);
  assert.deepEqual(offered.slice(1), [[true, ...names(3), "new.example.com"]]);
});

test("a new leader keeps the published map: names that it does not know leave as slowly as any other", async (t) => {
  const { store, pass, leadership } = await leader(t, names(9));
  leadership.abort();
  const next = loopRig(store);
  next.loop.start(next.leadership.signal);
  for (const name of names(7)) next.source.set(`shop/${name}`, name);
  next.source.sync();
  await pass(59_000);
  assert.deepEqual(published(store), mapped(names(9)));
  await pass(2_000);
  assert.deepEqual(published(store), mapped(names(7)));
});

test("a new leader takes every line that parses, and corrects those that somebody has edited", async (t) => {
  const { store, pass, leadership } = await leader(t, names(3));
  leadership.abort();
  store.edit(`203.0.113.66 bank.example.com\n${names(3).join("\n")}\n203.0.113.66 n0.example.com\n`);
  const next = loopRig(store);
  next.loop.start(next.leadership.signal);
  for (const name of names(3)) next.source.set(`shop/${name}`, name);
  next.source.sync();
  await pass(5_020);
  assert.deepEqual(published(store), { ...mapped(names(3)), "bank.example.com": "203.0.113.66" });
  await pass(61_000);
  assert.deepEqual(published(store), mapped(names(3)));
});

test("a map of a later version is left as it is", async (t) => {
  const { store, pass, leadership } = await leader(t, names(3));
  leadership.abort();
  const { metadata, data } = store.current as MapObject;
  const later = { data, metadata: { ...metadata, annotations: { ...metadata.annotations, [MAP_VERSION_KEY]: "2" } } };
  store.current = later as MapObject;
  const next = loopRig(store);
  next.loop.start(next.leadership.signal);
  next.source.sync();
  await pass(2_000);
  assert.equal(store.current, later);
  assert.match(String(next.texts), /left as it is: .* has version 2; this release reads version 1/);
});

test("a leader restores a map at once that somebody edited, deleted, broke or replaced by a backup", async (t) => {
  const { store, pass } = await leader(t, names(3));
  const good = store.current as MapObject;
  const text = good.data?.hosts ?? "";
  const gzipped = { "hosts.gz": Buffer.from("x").toString("base64") };
  const earlier = `${text.split("\n")[0]}\n`;
  const annotations = { ...good.metadata.annotations, [MAP_REVISION_KEY]: shortHash(earlier) };
  const faults = [
    () => {
      store.current = { metadata: { ...good.metadata, annotations }, data: { hosts: earlier } };
    },
    () => store.edit(`${text}203.0.113.66 bank.example.com\n`),
    () => store.edit(text.slice(0, 20)),
    () => store.edit("203.0.113.66 bank.example.com\n".repeat(35_000)),
    () => store.edit(undefined),
    () => {
      store.current = { ...good, binaryData: gzipped };
    },
    () => {
      store.current = { metadata: good.metadata, binaryData: gzipped };
    },
    () => {
      store.current = { ...good, data: { hosts: text, more: "x" } };
    },
  ];
  for (const fault of faults) {
    fault();
    await pass(2_000);
    assert.deepEqual(store.current, good);
  }
});

test("a full map is logged when names do not fit, and not again while their number stays", async (t) => {
  const { source, store, logged, pass } = await leader(t, []);
  const label = (text: string) => ["a", "b", "c", "d", "e"].map((part) => shortHash(`${part}${text}`)).join("");
  const long = (at: string) => `${["w", "x", "y", "z"].map((part) => label(`${part}${at}`)).join(".")}.a.com`;
  for (const namespace of ["shop", "edge"])
    source.set(`${namespace}/web`, ...Array.from({ length: 5_000 }, (_, at) => long(`${namespace}${at}`)));
  const written = async (count: number) => {
    while (store.writes.length < count) await pass(100);
  };
  await written(1);
  store.edit("");
  await written(2);
  assert.deepEqual(logged, ["map-full"]);
});

test("under churn there are at most two publications a second, and the last state is published", async (t) => {
  const { source, store, publications, pass } = await leader(t, names(3));
  for (let change = 0; change < 1_000; change += 1) {
    source.set(`shop/churn-${change}`, `churn-${change}.example.com`);
    await pass(10);
  }
  assert.ok(publications.length >= 18 && publications.length <= 22, `${publications.length} in ten seconds`);
  await pass(1_000);
  assert.equal(Object.keys(published(store)).length, 1_003);
});

test("one source cannot be read: new names of others are published, and no published name changes", async (t) => {
  const { store, pass, leadership } = await leader(t, names(3));
  leadership.abort();
  const next = loopRig(store);
  next.addresses.list = [...next.addresses.list, { name: "other", clusterIPs: ["198.51.100.7"] }];
  next.loop.start(next.leadership.signal);
  next.source.set("shop/n0", "n0.example.com", "new.example.com");
  next.source.sink("shop/n1", [claimOf("n1.example.com", "shop/n1", { target: "other" })]);
  next.source.sync(false);
  await pass(120_000, 1_000);
  assert.equal(next.loop.synced, false);
  assert.deepEqual(published(store), mapped([...names(3), "new.example.com"]));
  next.source.sync();
  await pass(61_000, 1_000);
  assert.deepEqual(published(store), {
    ...mapped(["n0.example.com", "new.example.com"]),
    "n1.example.com": "198.51.100.7",
  });
});

test("a target is in use while names lead to it, published or wanted", async (t) => {
  const { store, pass, leadership } = await leader(t, names(3));
  leadership.abort();
  const next = loopRig(store);
  next.loop.start(next.leadership.signal);
  await pass(100);
  assert.deepEqual(next.addresses.used, ["ingress-nginx"]);
  next.source.sync();
  await pass(100);
  assert.deepEqual(next.addresses.used, ["ingress-nginx"], "its names are still published");
  await pass(61_000, 1_000);
  assert.deepEqual(next.addresses.used, ["ingress-nginx", ""], "no name has it");
  next.source.set("shop/n0", "n0.example.com");
  await pass(1_000);
  assert.deepEqual(next.addresses.used, ["ingress-nginx", "", "ingress-nginx"]);
});

test("the source hears of a name when its plan changes, and when its line goes a minute later", async (t) => {
  const { source, pass } = await leader(t, names(3));
  const settled: string[] = [];
  Object.assign(source, { settled: (all: Iterable<string>) => settled.push(...all) });
  source.set("shop/n0.example.com");
  await pass(59_000, 1_000);
  assert.deepEqual(settled, ["n0.example.com"]);
  await pass(2_000, 1_000);
  assert.deepEqual(settled, ["n0.example.com", "n0.example.com"]);
});

test("without a term everything is decided, and nothing is written", async (t) => {
  const { store, pass, leadership } = await leader(t, names(3));
  leadership.abort();
  const observer = loopRig(store);
  observer.loop.start();
  observer.source.sink("tenant/web", [claimOf("n0.example.com", "tenant/web", { created: "2001-01-01T00:00:00Z" })]);
  observer.source.set("shop/n0", "n0.example.com");
  observer.source.sync();
  await pass(120_000, 1_000);
  assert.equal(observer.plan.planned.get("n0.example.com")?.holder, "shop");
  assert.deepEqual([store.writes, observer.loop.publishedNames], [[], undefined]);
});

for (const [readers, factor] of [
  [0, 1],
  [250, 1],
  [500, 2],
] as const) {
  test(`the pace counts the bytes that ${readers} readers get`, async (t) => {
    const pass = stopClock(t);
    const { loop, source, publications, leadership } = loopRig(new TestStore(), {}, () => readers);
    loop.start(leadership.signal);
    source.set("shop/web", ...names(5_000));
    source.sync();
    await pass(10);
    source.set("shop/web", "a.example.com");
    while (publications.length < 2) await pass(100, 100);
    const [first, second] = publications;
    const expected = ((first?.bytes ?? 0) / 200_000) * 1_000 * factor;
    const gap = (second?.at ?? 0) - (first?.at ?? 0);
    assert.ok(expected > 500 && gap >= expected && gap <= expected + 200, `${gap}, not ${expected}`);
    await loop.stop();
  });
}

/** A leader whose writes fail; `tries` are the times of its attempts, in milliseconds. */
async function failing(t: TestContext) {
  const pass = stopClock(t);
  const rig = loopRig();
  rig.loop.start(rig.leadership.signal);
  rig.source.sync();
  await pass(5_000);
  const began = Date.now();
  const tries: number[] = [];
  rig.store.onWrite = () => {
    tries.push(Date.now() - began);
    throw new Error("503");
  };
  rig.source.set("shop/web", "a.example.com");
  return { ...rig, pass, tries };
}

function gapsOf(tries: readonly number[]): number[] {
  return tries.slice(1).map((time, index) => Math.round((time - (tries[index] ?? 0)) / 100) * 100);
}

test("the retry delay doubles from half a second to fifteen seconds, and resets after a success", async (t) => {
  const { source, store, tries, seen, logged, pass } = await failing(t);
  await pass(62_000);
  assert.deepEqual(gapsOf(tries), [500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000, 15_000]);
  assert.equal(seen.failures, tries.length);
  // One line for all attempts, because the failure stays the same.
  assert.equal(logged.filter((code) => code === "publish-failed").length, 1);
  const fail = store.onWrite;
  store.onWrite = () => {};
  await pass(15_000);
  assert.deepEqual(published(store), mapped(["a.example.com"]));
  store.onWrite = fail;
  tries.length = 0;
  source.set("shop/web", "b.example.com");
  await pass(2_000);
  assert.deepEqual(gapsOf(tries), [500, 1_000]);
});

test("a leader that is deposed while it writes writes no more", async (t) => {
  const { loop, source, store, seen, pass, leadership } = await leader(t, names(3));
  store.onWrite = () => leadership.abort();
  source.set("shop/new", "new.example.com");
  await pass(5_000);
  source.set("shop/late", "late.example.com");
  await pass(5_000);
  assert.equal(store.writes.length, 1);
  assert.equal(seen.failures, 0, "being deposed is no failure");
  assert.equal(loop.publishedNames, undefined);
});
