import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { MAP_VERSION_KEY } from "#hostmap/metadata-keys.ts";
import type { MapObject } from "#lib/documents/map-format.ts";
import { claimOf } from "#test/arbitraries.ts";
import { IP, leader, loopRig, mapped, names, published, stopClock, TestStore } from "#test/fakes/loop-rig.ts";
import { fc } from "#test/property.ts";

for (const missing of ["source", "addresses", "store"] as const) {
  test(`nothing is published before the ${missing} has delivered its first full view`, async (t) => {
    const pass = stopClock(t);
    const { loop, source, addresses, store, leadership } = loopRig();
    addresses.synced = missing !== "addresses";
    store.isSynced = missing !== "store";
    loop.start();
    loop.lead(leadership.signal);
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

test("a follower publishes nothing, and starts warm once it leads", async (t) => {
  const pass = stopClock(t);
  const { loop, source, store, plan, leadership } = loopRig();
  loop.start();
  source.set("shop/web", "a.example.com");
  source.sync();
  await pass(60_000);
  assert.deepEqual(store.writes, []);
  assert.deepEqual([...plan.planned.keys()], ["a.example.com"]);
  assert.equal(loop.publishedNames, undefined);
  loop.lead(leadership.signal);
  await pass(10);
  assert.deepEqual(published(store), mapped(["a.example.com"]));
});

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

test("the lag of a publication counts from the first change in it, not from the echo of an earlier one", async (t) => {
  const { source, publications, pass } = await leader(t, names(3));
  for (const label of ["one", "two"]) {
    source.set(`shop/${label}`, `${label}.example.com`);
    await pass(10);
  }
  assert.equal(publications.length, 2, "from here on the pace makes turns wait, also those that an echo asks for");
  await pass(300);
  const changed = Date.now();
  source.set("shop/three", "three.example.com");
  await pass(100);
  source.set("shop/four", "four.example.com");
  while (publications.length < 3) await pass(10);
  assert.ok(Date.now() - changed > 200, "it did wait");
  assert.ok(Math.abs((publications[2]?.lagMs ?? 0) - (Date.now() - changed)) <= 10);
});

test("a failed write keeps the last good map; retries back off, whatever wakes the loop", async (t) => {
  const { source, store, failures, publications, pass } = await leader(t, names(3));
  const tries: number[] = [];
  const began = Date.now();
  store.onWrite = () => {
    tries.push(Date.now() - began);
    throw new Error("503");
  };
  for (let change = 0; change < 100; change += 1) {
    source.set("shop/churn", `c${change}.example.com`);
    await pass(100);
  }
  assert.deepEqual(published(store), mapped(names(3)));
  assert.equal(failures.length, tries.length);
  const gaps = tries.slice(1).map((time, index) => Math.round((time - (tries[index] ?? 0)) / 100) * 100);
  assert.deepEqual(gaps, [500, 1_000, 2_000, 4_000]);
  store.onWrite = () => {};
  await pass(8_000);
  const [first] = publications;
  assert.ok((first?.lagMs ?? 0) > 15_000, "the lag counts from the change, not from the last try");
  await pass(60_000);
  assert.deepEqual(published(store), mapped([...names(3), "c99.example.com"]));
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
  next.loop.start();
  for (const name of names(7)) next.source.set(`shop/${name}`, name);
  next.source.sync();
  next.loop.lead(next.leadership.signal);
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
  next.loop.start();
  next.source.sync();
  next.loop.lead(next.leadership.signal);
  await pass(299_000);
  assert.deepEqual(published(store), mapped(names(12)));
  assert.equal(next.holds.length, 1);
});

test("a new leader takes every line that parses, and corrects those that somebody has edited", async (t) => {
  const { store, pass, leadership } = await leader(t, names(3));
  leadership.abort();
  store.edit(`203.0.113.66 bank.example.com\n${names(3).join("\n")}\n203.0.113.66 n0.example.com\n`);
  const next = loopRig(store);
  next.loop.start();
  for (const name of names(3)) next.source.set(`shop/${name}`, name);
  next.source.sync();
  next.loop.lead(next.leadership.signal);
  await pass(20);
  assert.deepEqual(published(store), { ...mapped(names(3)), "bank.example.com": "203.0.113.66" });
  await pass(61_000);
  assert.deepEqual(published(store), mapped(names(3)));
});

for (const [what, harm] of [
  ["missing", () => undefined],
  ["broken", (map) => ({ ...map, binaryData: { "hosts.gz": "" } })],
] as const satisfies ReadonlyArray<readonly [string, (map: MapObject) => MapObject | undefined]>) {
  test(`a new leader whose map is ${what} reports it, and disputed names wait ten minutes`, async (t) => {
    const { store, pass, leadership } = await leader(t, names(3));
    leadership.abort();
    store.current = harm(store.current as MapObject);
    const next = loopRig(store);
    next.addresses.earlier = next.addresses.list;
    next.addresses.list = [...next.addresses.list, { name: "other", clusterIPs: ["198.51.100.7"] }];
    next.loop.start();
    for (const name of names(3)) next.source.set(`shop/${name}`, name);
    next.source.sink("edge/n0", [claimOf("n0.example.com", "edge/n0", { target: "other" })]);
    next.source.sync();
    next.loop.lead(next.leadership.signal);
    await pass(20);
    assert.deepEqual(next.logged.filter((code) => code === "map-lost").length, 1);
    assert.deepEqual(published(store), mapped(names(2, 1)));
    const codes = [...next.plan.report()].flatMap(({ name, decision }) =>
      decision.mapped ? [] : [[name, decision.reason.code]],
    );
    assert.deepEqual(codes, [
      ["n0.example.com", "map-lost"],
      ["n0.example.com", "map-lost"],
    ]);
    await pass(601_000, 1_000);
    assert.deepEqual(Object.keys(published(store)), names(3));
  });
}

test("a map of a later version is left as it is", async (t) => {
  const { store, pass, leadership } = await leader(t, names(3));
  leadership.abort();
  const { metadata, data } = store.current as MapObject;
  const later = { data, metadata: { ...metadata, annotations: { ...metadata.annotations, [MAP_VERSION_KEY]: "2" } } };
  store.current = later as MapObject;
  const next = loopRig(store);
  next.loop.start();
  next.source.sync();
  next.loop.lead(next.leadership.signal);
  await pass(2_000);
  assert.equal(store.current, later);
  assert.match(String(next.failures[0]), /left as it is: .* has version 2; this release reads version 1/);
});

test("a leader restores an edited, deleted or broken map at once", async (t) => {
  const { store, pass } = await leader(t, names(3));
  const good = store.current as MapObject;
  const text = good.data?.hosts ?? "";
  const gzipped = { "hosts.gz": Buffer.from("x").toString("base64") };
  const faults = [
    () => store.edit(`${text}203.0.113.66 bank.example.com\n`),
    () => store.edit(text.slice(0, 20)),
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

test("a hold ends after five minutes", async (t) => {
  const { source, store, pass } = await leader(t, names(12));
  for (const name of names(12)) source.set(`shop/${name}`);
  await pass(299_000);
  assert.deepEqual(published(store), mapped(names(12)));
  await pass(2_000);
  assert.deepEqual(published(store), {});
  assert.equal(store.hold, undefined);
});

test("a moved target takes its names along; names stay as they are while its address is unknown", async (t) => {
  const { addresses, store, pass } = await leader(t, names(3));
  addresses.move("198.51.100.1", "2001:db8::1");
  await pass(20);
  assert.deepEqual(published(store), mapped(names(3), "198.51.100.1,2001:db8::1"));
  addresses.move();
  await pass(120_000);
  assert.deepEqual(published(store), mapped(names(3), "198.51.100.1,2001:db8::1"));
});

test("names wait for the address of their target", async (t) => {
  const pass = stopClock(t);
  const { loop, source, addresses, store, leadership } = loopRig();
  addresses.list = [{ name: "ingress-nginx", clusterIPs: [] }];
  loop.start();
  source.set("shop/web", "a.example.com");
  source.sync();
  loop.lead(leadership.signal);
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

test("many changes request only one run, and do not delay it", async (t) => {
  const { loop, source, store, leadership } = loopRig();
  loop.start();
  source.sync();
  loop.lead(leadership.signal);
  const timers = t.mock.method(globalThis, "setTimeout");
  for (let change = 0; change < 1_000; change += 1) source.set("shop/web", `n${change}.example.com`);
  assert.equal(timers.mock.callCount(), 0, "the turn that leading asked for is still due");
  await sleep(20);
  assert.deepEqual(published(store), mapped(["n999.example.com"]));
  leadership.abort();
  await loop.stop();
});

const step = fc.oneof(
  fc.record({ do: fc.constant("set" as const), object: fc.nat(15), hosts: fc.array(fc.nat(30), { maxLength: 3 }) }),
  fc.record({ do: fc.constant("wait" as const), ms: fc.constantFrom(0, 10, 400, 3_000) }),
  fc.record({
    do: fc.constant("edit" as const),
    text: fc.constantFrom(undefined, "", "203.0.113.66 bank.example.com\n"),
  }),
  fc.record({ do: fc.constant("fail" as const), times: fc.integer({ min: 1, max: 3 }) }),
  fc.record({ do: fc.constant("move" as const), ip: fc.constantFrom("198.51.100.1", "198.51.100.2") }),
  fc.record({ do: fc.constant("depose" as const) }),
);

test("property: after any sequence of events, the map finally has the wanted names", async (t) => {
  const pass = stopClock(t);
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
      const store = new TestStore();
      const rig = loopRig(store);
      let term = rig.leadership;
      let ip = IP;
      const wanted = new Map<string, readonly string[]>();
      rig.loop.start();
      rig.source.sync();
      rig.loop.lead(term.signal);
      for (const next of steps) {
        if (next.do === "set") {
          const hosts = next.hosts.map((host) => `n${host}.example.com`);
          wanted.set(`shop/${next.object}`, hosts);
          rig.source.set(`shop/${next.object}`, ...hosts);
        } else if (next.do === "wait") await pass(next.ms);
        else if (next.do === "edit") store.edit(next.text);
        else if (next.do === "move") {
          ip = next.ip;
          rig.addresses.move(ip);
        } else if (next.do === "depose") {
          term.abort();
          term = new AbortController();
          rig.loop.lead(term.signal);
        } else {
          let left = next.times;
          store.onWrite = () => {
            left -= 1;
            if (left >= 0) throw new Error("503");
          };
        }
      }
      await pass(20_000, 100);
      await pass(362_000, 100);
      assert.deepEqual(published(store), mapped([...new Set([...wanted.values()].flat())], ip));
      term.abort();
      await rig.loop.stop();
    }),
    { numRuns: 40 },
  );
});

test("the targets in use are reported on every run, also on followers, once the sources have been read", async (t) => {
  const pass = stopClock(t);
  const { loop, source, addresses, leadership } = loopRig();
  loop.start();
  source.set("a", "a.example.com");
  await pass(100);
  assert.deepEqual(addresses.used, []);
  source.sync();
  await pass(100);
  assert.deepEqual(addresses.used, ["ingress-nginx"]);
  loop.lead(leadership.signal);
  source.set("a");
  await pass(1_000);
  assert.deepEqual(addresses.used, ["ingress-nginx", ""]);
  await loop.stop();
});
