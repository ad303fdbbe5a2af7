import assert from "node:assert/strict";
import { test } from "node:test";
import { createClaimPolicy } from "#hostmap/claim-policy.ts";
import { Plan } from "#hostmap/plan.ts";
import type { Claim } from "#hostmap/types.ts";
import { claimOf } from "#test/arbitraries.ts";
import { LeaderMap } from "./leader-map.ts";

// The holder is the namespace `shop`, with the target `edge`. A tenant claims the same names with its own target.

const RULES = { allowDomains: [], denyDomains: [], namespaces: [], denyNamespaces: [], maxNamesPerNamespace: 100 };
const REMOVAL = { vanishMs: 60, guardNames: 10, holdMs: 300 };
const [A, B] = ["198.51.100.1", "198.51.100.2"];
const EDGE = { name: "edge", clusterIPs: [A] };
const OF_TENANT = { name: "of-tenant", clusterIPs: [B] };
const TARGETS = [EDGE, OF_TENANT];
const LONG_AGO = "2025-01-01T00:00:00Z";
const LATER = "2026-06-01T00:00:00Z";
const UNDECIDED = { target: { code: "header-unknown", text: "nobody has asked yet" }, pending: "edge" };

/** A follower's plan of these claims, which then becomes that of a leader whose map has these names of `shop`. */
function leading({ before = {}, names = [] }: { before?: Claims; names?: readonly string[] } = {}) {
  const plan = new Plan(createClaimPolicy(RULES, undefined), RULES.maxNamesPerNamespace);
  const put = (object: string, ...claims: ReadonlyArray<readonly [name: string, more: Partial<Claim>]>) =>
    plan.set(
      object,
      claims.map(([name, more]) => claimOf(name, object, more)),
    );
  for (const [object, claim] of Object.entries(before)) put(object, claim);
  plan.takeChanges(0);
  const lines = new Map(names.map((name) => [name, { addresses: [A], order: 1, holder: "shop" }]));
  const map = new LeaderMap(REMOVAL, plan, lines, TARGETS);
  plan.takeChanges(0);
  map.releaseUnplanned(0);
  /** Publishes, and returns the holder and the address of a name. */
  const publish = (name: string, now = 0, targets: Parameters<LeaderMap["update"]>[1] = TARGETS) => {
    map.update(plan.takeChanges(now), targets, now);
    map.render(now);
    const line = map.names.lineOf(name);
    return line && `${line.holder} ${line.addresses.join()}`;
  };
  return { put, publish };
}

type Claims = Readonly<Record<string, readonly [name: string, more: Partial<Claim>]>>;

test("a tenant's older claim is in a follower's plan: it takes no undecided name when the follower leads", () => {
  const { publish } = leading({
    before: {
      "tenant/web": ["a.com", { target: "of-tenant", created: LONG_AGO }],
      "shop/web": ["a.com", { ...UNDECIDED, created: LATER }],
    },
    names: ["a.com"],
  });
  assert.equal(publish("a.com"), `shop ${A}`);
});

test("a tenant's undecided claim does not publish a name whose owner is gone before its target has an address", () => {
  const { put, publish } = leading();
  put("shop/web", ["a.com", { target: "edge", created: LONG_AGO }]);
  put("tenant/web", ["a.com", { ...UNDECIDED, pending: "of-tenant", created: LATER }]);
  assert.equal(publish("a.com", 0, []), undefined);
  put("shop/web");
  assert.equal(publish("a.com", 1, []), undefined);
  assert.equal(publish("a.com", 2), undefined);
});
