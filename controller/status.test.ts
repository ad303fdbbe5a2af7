import assert from "node:assert/strict";
import { test } from "node:test";
import { configSchema } from "../config/schema.ts";
import { createClaimPolicy } from "../hostmap/claim-policy.ts";
import { Plan } from "../hostmap/plan.ts";
import { PublishedNames } from "../hostmap/published-names.ts";
import { claimOf } from "../test/arbitraries.ts";
import type { Source } from "./sources/types.ts";
import { type StatusDeps, statusDocument } from "./status.ts";
import { fixedTargetAddresses } from "./target-addresses.ts";
import { classCatalog } from "./targets/resolver.ts";

const RULES = { allowDomains: [], denyDomains: [], namespaces: [], denyNamespaces: [], maxNamesPerNamespace: 2 };
const SOURCE: Source = {
  start() {},
  state: () => [{ name: "ingresses", synced: true, problems: [] }],
  stop: async () => {},
};
const config = configSchema.parse({
  inject: { warnNames: 2, maxNames: 3 },
  targets: [
    { name: "relayed", upstream: { host: "h" }, classes: ["a"] },
    { name: "waiting", upstream: { host: "h" }, classes: ["b"] },
    {
      name: "direct",
      upstream: { host: "h" },
      classes: ["c"],
      clusterIPs: ["10.0.0.1"],
      ports: [{ port: 80, protocol: "none" }],
    },
  ],
});

const BOTH = [
  { port: 80, protocol: "v1" },
  { port: 443, protocol: "v1" },
];

function depsOf(plan: Plan, more: Partial<StatusDeps> = {}): StatusDeps {
  return {
    identity: "controller-0",
    source: SOURCE,
    plan,
    addresses: fixedTargetAddresses([
      { name: "relayed", clusterIPs: ["198.51.100.9", "2001:db8::9"] },
      { name: "waiting", clusterIPs: [] },
    ]),
    catalog: classCatalog(config.targets),
    config,
    synced: () => true,
    publishedNames: () => undefined,
    revision: () => undefined,
    ...more,
  };
}

function planOf(...claims: ReadonlyArray<ReturnType<typeof claimOf>>): Plan {
  const plan = new Plan(createClaimPolicy(RULES, undefined), RULES.maxNamesPerNamespace);
  for (const claim of claims) {
    plan.set(`${claim.from.namespace}/${claim.from.name}`, [claim]);
  }
  plan.takeChanges();
  return plan;
}

test("each name with its object, target and addresses, or the reason for the refusal", () => {
  const plan = planOf(
    claimOf("A.example.com", "shop/ok", { target: "relayed", created: "2025-01-01T00:00:00Z" }),
    claimOf("*.example.com", "shop/wild", { target: "relayed" }),
    claimOf("c.example.com", "shop/over", { target: "relayed", created: "2026-02-01T00:00:00Z" }),
    claimOf("b.example.com", "other/wait", { target: "waiting" }),
    claimOf("bad name", "other/bad", { target: "relayed" }),
    claimOf("a.example.com", "third/late", { target: "waiting" }),
    claimOf("d.example.com", "third/none", { target: { code: "no-target", text: "no target" } }),
  );
  const { names } = statusDocument(depsOf(plan));
  const table = names.map(({ name, from, target, addresses, reason }) => [
    `${from.namespace}/${from.name}`,
    name,
    target,
    addresses.length,
    reason?.code,
  ]);
  assert.deepEqual(table, [
    ["shop/ok", "a.example.com", "relayed", 2, undefined],
    ["shop/wild", "*.example.com", "relayed", 2, "wildcard"],
    ["shop/over", "c.example.com", undefined, 0, "namespace-quota"],
    ["other/wait", "b.example.com", "waiting", 0, "target-without-address"],
    ["other/bad", "bad name", undefined, 0, "name-not-rfc1123"],
    ["third/late", "a.example.com", undefined, 0, "conflict"],
    ["third/none", "d.example.com", undefined, 0, "no-target"],
  ]);
  for (const { reason } of names) assert.ok(reason === undefined || reason.text.length > 5);
});

test("a follower reports names as the leader does, and that it does not lead", () => {
  const plan = planOf(claimOf("a.example.com", "shop/ok", { target: "relayed" }));
  const follower = statusDocument(depsOf(plan));
  assert.deepEqual([follower.leader, follower.hold, follower.leaving], [false, undefined, []]);
  const publishedNames = new PublishedNames({ vanishMs: 60, guardNames: 1, holdMs: 300 });
  publishedNames.load([["old.example.com", ["198.51.100.9"]]]);
  publishedNames.release("old.example.com", 1);
  publishedNames.settle(1);
  const leader = statusDocument(depsOf(plan, { publishedNames: () => publishedNames, revision: () => "abc" }));
  assert.deepEqual(
    [leader.leader, leader.hold?.names, leader.leaving, leader.revision],
    [true, 1, ["old.example.com"], "abc"],
  );
  assert.deepEqual(leader.names, follower.names);
});

test("targets as configured, with their known addresses", () => {
  assert.deepEqual(statusDocument(depsOf(planOf())).targets, [
    { name: "relayed", relayed: true, clusterIPs: ["198.51.100.9", "2001:db8::9"], upstream: "h", ports: BOTH },
    { name: "waiting", relayed: true, clusterIPs: [], upstream: "h", ports: BOTH },
    { name: "direct", relayed: false, clusterIPs: [], upstream: "h", ports: [{ port: 80, protocol: "none" }] },
  ]);
});

test("a discovered target is reported with its Service, and a name of a waiting one with the reason", () => {
  const found = { ...config.targets[0], name: "found", upstream: { service: { namespace: "edge", name: "lb" } } };
  const catalog = {
    configured: () => [],
    found: (name: string) => (name === "found" ? (found as (typeof config.targets)[0]) : undefined),
  };
  const addresses = {
    ...fixedTargetAddresses([{ name: "found", clusterIPs: [] }]),
    reasonOf: (target: string) => ({ code: "too-many-targets", text: `no room for ${target}` }),
  };
  const plan = planOf(claimOf("a.example.com", "shop/ok", { target: "found" }));
  const { targets, names } = statusDocument(depsOf(plan, { catalog, addresses }));
  assert.deepEqual(targets, [{ name: "found", relayed: true, clusterIPs: [], upstream: "edge/lb", ports: BOTH }]);
  assert.deepEqual(names[0]?.reason, { code: "too-many-targets", text: "no room for found" });
});

test("the document is JSON, and hostile names in it are escaped", () => {
  const document = statusDocument(depsOf(planOf(claimOf("a\u001b[31m\n.example.com", "shop/x"))));
  const text = JSON.stringify(document);
  assert.match(text, /^[\x20-\x7e]+$/);
  assert.deepEqual(JSON.parse(text).names[0].reason.code, "name-not-rfc1123");
});

test("warns of more names than a pod should get, and of more than it can; wildcards do not count", () => {
  const claims = ["a", "b", "c", "d"].map((name) => claimOf(`${name}.example.com`, `${name}/x`, { target: "relayed" }));
  const warnings = (count: number) =>
    statusDocument(depsOf(planOf(...claims.slice(0, count), claimOf("*.example.com", "w/x", { target: "relayed" }))))
      .warnings;
  assert.deepEqual(warnings(2), []);
  assert.deepEqual(
    warnings(3).map(({ code }) => code),
    ["many-names"],
  );
  assert.deepEqual(
    warnings(4).map(({ code, text }) => [code, text.includes("first 3 of 4 names")]),
    [["over-cap", true]],
  );
});
