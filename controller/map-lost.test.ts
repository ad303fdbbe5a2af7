import assert from "node:assert/strict";
import { test } from "node:test";
import { MAP_LOST_KEY } from "#hostmap/metadata-keys.ts";
import type { MapObject } from "#lib/documents/map-format.ts";
import { claimOf } from "#test/arbitraries.ts";
import { leader, loopRig, mapped, names, published, type TestStore } from "#test/fakes/loop-rig.ts";

/** A new leader. Another namespace claims the first of the three names, too, for another target. */
function leadWithDispute(store: TestStore) {
  const next = loopRig(store);
  next.addresses.earlier = next.addresses.list;
  next.addresses.list = [...next.addresses.list, { name: "other", clusterIPs: ["198.51.100.7"] }];
  next.loop.start(next.leadership.signal);
  for (const name of names(3)) next.source.set(`shop/${name}`, name);
  next.source.sink("edge/n0", [claimOf("n0.example.com", "edge/n0", { target: "other" })]);
  return next;
}

for (const [what, harm] of [
  ["missing", () => undefined],
  ["broken", (map) => ({ ...map, binaryData: { "hosts.gz": "" } })],
] as const satisfies ReadonlyArray<readonly [string, (map: MapObject) => MapObject | undefined]>) {
  test(`a new leader whose map is ${what} reports it, and disputed names wait ten minutes`, async (t) => {
    const { store, pass, leadership } = await leader(t, names(3));
    leadership.abort();
    store.current = harm(store.current as MapObject);
    const first = leadWithDispute(store);
    const pending = { target: { code: "dns-not-verified", text: "waits" }, pending: "ingress-nginx" };
    first.source.sink("shop/slow", [claimOf("slow.example.com", "shop/slow", pending)]);
    await pass(10_000);
    first.source.sync();
    await pass(4_900);
    assert.deepEqual(store.writes, [], "readers keep their last map until the sources are read and DNS has answered");
    first.source.set("shop/slow", "slow.example.com");
    await pass(200);
    assert.deepEqual(first.logged.filter((code) => code === "map-lost").length, 1);
    assert.deepEqual(published(store), mapped([...names(2, 1), "slow.example.com"]));
    first.source.set("shop/slow");
    await pass(61_000, 1_000);
    store.edit(undefined);
    await pass(1_000);
    first.leadership.abort();
    const next = leadWithDispute(store);
    next.source.sync();
    await pass(522_000, 1_000);
    assert.deepEqual(published(store), mapped(names(2, 1)), "also if another leader takes over");
    const codes = [...next.plan.report()].flatMap(({ name, decision }) =>
      decision.mapped ? [] : [[name, decision.reason.code]],
    );
    assert.deepEqual(codes, [
      ["n0.example.com", "map-lost"],
      ["n0.example.com", "map-lost"],
    ]);
    await pass(11_000, 1_000);
    assert.deepEqual(Object.keys(published(store)), names(3));
    assert.equal(store.current?.metadata.annotations?.[MAP_LOST_KEY], undefined);
  });
}
