import assert from "node:assert/strict";
import { test } from "node:test";
import { createClaimPolicy } from "#hostmap/claim-policy.ts";
import { Plan } from "#hostmap/plan.ts";
import type { Claim } from "#hostmap/types.ts";
import { claimOf } from "#test/arbitraries.ts";
import { LeaderMap } from "./leader-map.ts";

// The holder is the namespace `shop`, with the target `edge`. A tenant claims the same names with its own target.

const RULES = { allowDomains: [], denyDomains: [], namespaces: [], denyNamespaces: [], maxNamesPerNamespace: 100 };
const REMOVAL = { vanishSeconds: 0.06, guardHoldSeconds: 0.3 };
const [A, B] = ["198.51.100.1", "198.51.100.2"];
const EDGE = { name: "edge", clusterIPs: [A] };
const OF_TENANT = { name: "of-tenant", clusterIPs: [B] };
const TARGETS = [EDGE, OF_TENANT];
const LONG_AGO = "2025-01-01T00:00:00Z";
const LATER = "2026-06-01T00:00:00Z";
const UNDECIDED = {
  target: { code: "header-unknown", text: "nobody has asked yet" },
  undecided: true as const,
  maybe: "edge",
};

/** A leader that finds a map with these names of `shop`, and these claims. */
function leading({ before = {}, names = [] }: { before?: Claims; names?: readonly string[] } = {}) {
  const plan = new Plan(createClaimPolicy(RULES, undefined), RULES.maxNamesPerNamespace);
  const put = (object: string, ...claims: ReadonlyArray<readonly [name: string, more: Partial<Claim>]>) =>
    plan.set(
      object,
      claims.map(([name, more]) => claimOf(name, object, more)),
    );
  const lines = new Map(names.map((name) => [name, { name, addresses: [A], holder: "shop" }]));
  const map = new LeaderMap(REMOVAL, plan, lines, TARGETS);
  for (const [object, claim] of Object.entries(before)) put(object, claim);
  /** Publishes, and returns the holder and the address of a name. */
  const publish = (name: string, now = 0, targets: Parameters<LeaderMap["update"]>[1] = TARGETS) => {
    map.update(plan.takeChanges(), targets, now, true);
    map.settle(now);
    const line = map.names.lineOf(name);
    return line && `${line.holder} ${line.addresses.join()}`;
  };
  return { put, publish };
}

type Claims = Readonly<Record<string, readonly [name: string, more: Partial<Claim>]>>;

test("a tenant's older claim takes no undecided name of the holder, nor does one that ends before its move", () => {
  const { put, publish } = leading({
    before: {
      "tenant/web": ["a.com", { target: "of-tenant", created: LONG_AGO }],
      "shop/web": ["a.com", { ...UNDECIDED, created: LATER }],
    },
    names: ["a.com"],
  });
  assert.equal(publish("a.com"), `shop ${A}`);
  put("tenant/web", ["a.com", { target: "new", verified: true }]);
  assert.equal(publish("a.com", 1), `shop ${A}`, "its target has no address");
  put("tenant/web");
  const all = [...TARGETS, { name: "new", clusterIPs: [B] }];
  assert.deepEqual([publish("a.com", 2), publish("a.com", 3, all)], [`shop ${A}`, `shop ${A}`]);
});

test("a tenant's undecided claim does not publish a name whose owner is gone before its target has an address", () => {
  const { put, publish } = leading();
  put("shop/web", ["a.com", { target: "edge", created: LONG_AGO }]);
  put("tenant/web", ["a.com", { ...UNDECIDED, undecided: true as const, maybe: "of-tenant", created: LATER }]);
  assert.equal(publish("a.com", 0, []), undefined);
  put("shop/web");
  assert.equal(publish("a.com", 1, []), undefined);
  assert.equal(publish("a.com", 2), undefined);
});

test("the heir's target has no address: the name of a deleted object leaves, and comes with the address", () => {
  const { put, publish } = leading({ before: { "shop/web": ["a.com", { target: "edge" }] }, names: ["a.com"] });
  put("tenant/web", ["a.com", { target: "refused", created: LONG_AGO }]);
  put("shop/web");
  assert.deepEqual([publish("a.com", 100), publish("a.com", 159)], [`shop ${A}`, `shop ${A}`]);
  assert.equal(publish("a.com", 160), undefined);
  assert.equal(publish("a.com", 200, [...TARGETS, { name: "refused", clusterIPs: [B] }]), `tenant ${B}`);
});

test("the heir has the holder's target, whose address is unknown for a moment: the line stays", () => {
  const { put, publish } = leading({ before: { "shop/web": ["a.com", { target: "edge" }] }, names: ["a.com"] });
  put("heir/web", ["a.com", { target: "edge" }]);
  put("shop/web");
  publish("a.com", 100);
  assert.equal(publish("a.com", 160, [{ name: "edge", clusterIPs: [] }]), `heir ${A}`);
});

for (const names of [["*.a.com"], ["*.a.com", "**.a.com"], ["**.a.com", "*.a.com"]]) {
  test(`the heir of the lines ${names.join(" and ")} gets its wildcard at any depth, whichever line ends first`, () => {
    const { put, publish } = leading({ names });
    put("tenant/route", ["*.a.com", { target: "of-tenant", anyDepth: true }]);
    publish("*.a.com", 0);
    assert.deepEqual([publish("*.a.com", 60), publish("**.a.com", 60)], [`tenant ${B}`, `tenant ${B}`]);
  });
}

test("a tenant adds and deletes a claim on the holder's target all the time: the heir does not wait for ever", () => {
  const { put, publish } = leading({ before: { "shop/web": ["a.com", { target: "edge" }] }, names: ["a.com"] });
  put("heir/web", ["a.com", { target: "of-tenant", created: LONG_AGO }]);
  put("shop/web");
  for (let now = 100; now < 300; now += 50) {
    put("tenant/web", ["a.com", { target: "edge", created: LATER }]);
    publish("a.com", now);
    put("tenant/web");
    publish("a.com", now + 25);
  }
  assert.equal(publish("a.com", 300), `heir ${B}`);
});

test("the holder's time ends while its name is leaving, and nobody else wants it: it stays until its own time", () => {
  const { put, publish } = leading({ before: { "shop/web": ["a.com", { target: "edge" }] }, names: ["a.com"] });
  put("other/web", ["a.com", { target: "edge" }]);
  put("shop/web");
  publish("a.com", 100);
  put("other/web");
  publish("a.com", 150);
  assert.deepEqual([publish("a.com", 160), publish("a.com", 209)], [`undefined ${A}`, `undefined ${A}`]);
  assert.equal(publish("a.com", 210), undefined);
});

test("the holder is back in time, with a target that has no address yet: an older claim does not get the name", () => {
  const { put, publish } = leading({ before: { "shop/web": ["a.com", { target: "edge" }] }, names: ["a.com"] });
  put("tenant/web", ["a.com", { target: "edge", created: LONG_AGO }]);
  put("shop/web");
  publish("a.com", 100);
  put("shop/web", ["a.com", { target: "new", created: LATER }]);
  publish("a.com", 150);
  assert.equal(publish("a.com", 160), `shop ${A}`);
});

for (const names of [["a.com"], ["*.a.com", "**.a.com"]]) {
  test(`the owner of ${names.join(" and ")} creates its object again: undecided, it is the holder in time`, () => {
    const { put, publish } = leading({
      before: { "shop/web": [names[0] ?? "", { target: "edge", anyDepth: true }] },
      names,
    });
    put("tenant/web", [names[0] ?? "", { target: "of-tenant", created: LONG_AGO }]);
    put("shop/web");
    for (const name of names) publish(name, 100);
    put("shop/web", [names[0] ?? "", { ...UNDECIDED, created: LATER }]);
    for (const name of names) publish(name, 159);
    for (const name of names) assert.equal(publish(name, 1_000), `shop ${A}`);
  });
}
