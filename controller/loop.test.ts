import assert from "node:assert/strict";
import { test } from "node:test";
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
  assert.deepEqual(
    publications.map(({ mapRevision }) => mapRevision),
    store.writes,
  );
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

test("the lag of a publication counts from the first change in it, not from the echo of an earlier one", async (t) => {
  const { source, publications, pass } = await leader(t, names(3));
  source.set("shop/one", "one.example.com");
  await pass(10);
  assert.equal(publications.length, 1, "from here on the pace makes rounds wait, also those that an echo asks for");
  await pass(200);
  const changed = Date.now();
  source.set("shop/three", "three.example.com");
  await pass(100);
  source.set("shop/four", "four.example.com");
  while (publications.length < 2) await pass(10);
  assert.ok(Date.now() - changed > 200, "it did wait");
  assert.ok(Math.abs((publications[1]?.lagMs ?? 0) - (Date.now() - changed)) <= 10);
});

test("a vanished name leaves after a minute, unless it comes back before", async (t) => {
  const { source, store, pass } = await leader(t, names(9));
  source.set("shop/n0.example.com");
  source.set("shop/n1.example.com");
  await pass(59_900);
  source.set("shop/n1.example.com", "n1.example.com");
  assert.deepEqual(published(store), mapped(names(9)));
  await pass(200);
  assert.deepEqual(published(store), mapped(names(8, 1)));
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
  assert.deepEqual(next.addresses.inUse, new Set(["ingress-nginx"]));
  await pass(2_000);
  assert.deepEqual(published(store), mapped(names(7)));
});

test("a new leader holds the removal if it misses more than half of the map: its source may be at fault", async (t) => {
  const { store, pass, leadership } = await leader(t, names(12));
  leadership.abort();
  const next = loopRig(store);
  next.loop.start(next.leadership.signal);
  next.source.sync();
  await pass(299_000);
  assert.deepEqual(published(store), mapped(names(12)));
  assert.equal(next.holds.length, 1);
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
  assert.match(String(next.failures[0]), /left as it is: .* has version 2; this release reads version 1/);
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

test("the loss of more than half is held and logged once; additions go through; its time ends it", async (t) => {
  const { source, store, holds, logged, pass } = await leader(t, names(12));
  for (const name of names(8)) source.set(`shop/${name}`);
  await pass(100);
  const hold = JSON.parse(store.hold ?? "{}");
  assert.deepEqual([hold.names, hold.of, hold.until - hold.since], [8, 12, 300_000]);
  source.set("shop/new", "new.example.com");
  await pass(120_000);
  assert.deepEqual(published(store), mapped([...names(12), "new.example.com"]));
  await pass(300_000);
  assert.deepEqual(published(store), mapped([...names(4, 8), "new.example.com"]));
  assert.equal(store.hold, undefined);
  assert.equal(holds.length, 1);
  assert.equal(logged.filter((code) => code === "removal-held").length, 1);
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

test("names wait for the address of their target", async (t) => {
  const pass = stopClock(t);
  const { loop, source, addresses, store, leadership } = loopRig();
  addresses.list = [{ name: "ingress-nginx", clusterIPs: [] }];
  loop.start(leadership.signal);
  source.set("shop/web", "a.example.com");
  source.sync();
  await pass(5_000);
  assert.deepEqual(published(store), {});
  addresses.move(IP);
  await pass(20);
  assert.deepEqual(published(store), mapped(["a.example.com"]));
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

test("the targets of published names are in use from the start, others once they have names", async (t) => {
  const { store, pass, leadership } = await leader(t, names(3));
  leadership.abort();
  const next = loopRig(store);
  next.loop.start(next.leadership.signal);
  await pass(100);
  assert.deepEqual(next.addresses.used, ["ingress-nginx"]);
  next.source.sync();
  await pass(100);
  assert.deepEqual(next.addresses.used, ["ingress-nginx", ""], "everything is read, and no name has it");
  next.source.set("shop/n0", "n0.example.com");
  await pass(1_000);
  assert.deepEqual(next.addresses.used, ["ingress-nginx", "", "ingress-nginx"]);
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
    const { loop, source, publications, leadership } = loopRig(new TestStore(), { bytesPerSecond: 100 }, () => readers);
    loop.start(leadership.signal);
    source.set("shop/web", ...names(10));
    source.sync();
    await pass(10);
    source.set("shop/web", "a.example.com");
    while (publications.length < 2) await pass(100, 100);
    const [first, second] = publications;
    const expected = ((first?.bytes ?? 0) / 100) * 1_000 * factor;
    const gap = (second?.at ?? 0) - (first?.at ?? 0);
    assert.ok(expected > 500 && gap >= expected && gap <= expected + 200, `${gap}, not ${expected}`);
    await loop.stop();
  });
}

test("a name that comes and goes between two publications is never published", async (t) => {
  const { source, store, pass } = await leader(t, names(3));
  source.set("shop/one", "one.example.com");
  await pass(10);
  source.set("shop/two", "two.example.com");
  await pass(100);
  source.set("shop/two");
  await pass(5_000);
  assert.deepEqual(published(store), mapped([...names(3), "one.example.com"]));
});
