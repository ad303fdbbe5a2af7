import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { RemovalHold } from "#hostmap/published-names.ts";
import { recordMap } from "./history.ts";
import { ingress } from "./objects.ts";
import { NAMESPACE, type System, startSystem, until } from "./system.ts";

const VANISH_MS = 5_000;
/** How long a removal is held. It is longer than two checks that nothing left, on a busy machine. */
const HOLD_MS = 60_000;
const KEPT = ["a.example.com", "b.example.com", "c.example.com", "d.example.com"];
const DROPPED = Array.from({ length: 8 }, (_, index) => `n${index}.example.com`);

let system: System;
before(async () => {
  const upstream = { service: { namespace: "ingress-nginx", name: "ingress-nginx-controller" } };
  const config = {
    map: { vanishSeconds: VANISH_MS / 1000, guardHoldSeconds: HOLD_MS / 1000 },
    targets: [{ name: "ingress-nginx", upstream, classes: ["nginx", "edge"] }],
  };
  system = await startSystem({ values: { config } });
  await system.apply(ingress("kept", KEPT));
  await system.ready(KEPT);
});
after(() => system?.stop());

async function addDropped(): Promise<void> {
  await system.apply(ingress("dropped", DROPPED));
  await system.ready([...KEPT, ...DROPPED]);
}

async function publishedHold(): Promise<RemovalHold | undefined> {
  return (await system.map()).hold;
}

/** Deletes eight of twelve names at once, and returns the hold that this must cause. */
async function drop(): Promise<RemovalHold> {
  await system.kubectl("delete", "ingress", "dropped");
  let hold: RemovalHold | undefined;
  await until("the hold", async () => {
    hold = await publishedHold();
    return hold?.names === DROPPED.length;
  });
  assert.ok(hold);
  return hold;
}

async function assertNothingLeft(sinceMs: number): Promise<void> {
  await until("the vanish time to be over", () => Date.now() - sinceMs > 2 * VANISH_MS);
  assert.deepEqual([...(await system.publishedNames())].sort(), [...KEPT, ...DROPPED].sort());
}

describe("a name that nothing claims any more", () => {
  it("stays for the vanish time, then leaves the map, and no other name leaves with it", async () => {
    await system.apply(ingress("one", ["one.example.com"]));
    await system.ready(["one.example.com"]);
    const editions = await recordMap(system);
    await system.kubectl("delete", "ingress", "one");
    const deletedAt = Date.now();
    const leader = await system.leader();
    await until("/status to say that it leaves", async () =>
      (await leader.status()).leaving.includes("one.example.com"),
    );
    await until("it to leave", async () => !(await system.publishedNames()).has("one.example.com"));
    // The name vanished before kubectl ended, by less than a second.
    assert.ok(Date.now() - deletedAt > VANISH_MS - 1_000, `after ${Date.now() - deletedAt} ms`);
    for (const hosts of await editions()) assert.ok(KEPT.every((name) => hosts.has(name)));
  });
});

describe("eight names of twelve that vanish at once", () => {
  it("are held back: annotation, /status, Event and log say so", async () => {
    await addDropped();
    const from = Date.now();
    const hold = await drop();
    assert.equal(hold.of, KEPT.length + DROPPED.length);
    assert.ok(hold.until - hold.since >= HOLD_MS, "for its time");
    const leader = await system.leader();
    const status = await leader.status();
    assert.deepEqual(status.hold, hold);
    assert.deepEqual([...status.leaving].sort(), DROPPED);
    assert.match(await leader.log(), /"code":"removal-held"/);
    await until("the Event", async () => {
      const args = ["-n", NAMESPACE, "get", "events.events.k8s.io", "--field-selector", "reason=RemovalHeld"];
      const note = await system.kubectl(...args, "-o", "jsonpath={.items[*].note}");
      return /\d+ of 12 names would be removed at once; held back until /.test(note);
    });
    await assertNothingLeft(from);
  });

  it("do not keep a new name out of the map", async () => {
    await system.apply(ingress("new", ["new.example.com"]));
    await system.ready(["new.example.com", ...DROPPED]);
    await system.apply(ingress("new", [KEPT[0] ?? ""]));
    await until("it to be leaving too", async () => (await publishedHold())?.names === DROPPED.length + 1);
  });

  it("stay held when another controller takes over", async () => {
    const before = await publishedHold();
    const editions = await recordMap(system);
    await system.start("controller");
    const [old] = system.controllers;
    assert.ok(old);
    await system.end(old, "SIGTERM");
    await until("a hold of the new leader", async () => {
      const hold = await publishedHold();
      return hold !== undefined && hold.since !== before?.since && hold.names === DROPPED.length + 1;
    });
    for (const hosts of await editions()) assert.ok(DROPPED.every((name) => hosts.has(name)));
  });

  it("leave when the time of the hold is over", async () => {
    const { until: end = Number.POSITIVE_INFINITY } = (await publishedHold()) ?? {};
    const gone = async () => [...(await system.publishedNames())].sort().join() === KEPT.join();
    await until("them to leave", gone, 2 * HOLD_MS);
    assert.ok(Date.now() >= end, "not earlier");
    await until("the hold to end", async () => (await publishedHold()) === undefined);
    assert.equal((await (await system.leader()).status()).hold, undefined);
    await system.ready(KEPT);
  });
});
