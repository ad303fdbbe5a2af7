import assert from "node:assert/strict";
import { test } from "node:test";
import { createClaimPolicy } from "#hostmap/claim-policy.ts";
import { Plan } from "#hostmap/plan.ts";
import type { TargetAddress } from "#hostmap/types.ts";
import { parseConfig } from "#lib/config/parse.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { claimOf } from "#test/arbitraries.ts";
import { HeaderDecisions } from "./expected-headers/header-decisions.ts";
import { type StatusDeps, statusDocument } from "./status.ts";
import { TargetTable } from "./targets/target-table.ts";

const RULES = { allowDomains: [], denyDomains: [], namespaces: [], denyNamespaces: [], maxNamesPerNamespace: 2 };
const SOURCE = { state: () => [{ name: "ingresses", synced: true, problems: [] }] };
const BOTH = [
  { port: 80, protocol: "v1" },
  { port: 443, protocol: "v1" },
];
const config = parseConfig({
  inject: { maxNames: 202 },
  targets: [
    { name: "relayed", upstream: { host: "h" }, classes: ["a"], ports: BOTH },
    { name: "waiting", upstream: { host: "h" }, classes: ["b"], ports: BOTH },
    {
      name: "direct",
      upstream: { host: "h" },
      classes: ["c"],
      clusterIPs: ["10.0.0.1"],
      ports: [{ port: 80, protocol: "none" }],
    },
  ],
});

function fixedAddresses(targets: readonly TargetAddress[]): StatusDeps["addresses"] {
  return { targets: () => targets, reasonOf: () => undefined };
}

function depsOf(plan: Plan, more: Partial<StatusDeps> = {}): StatusDeps {
  return {
    identity: "controller-0",
    source: SOURCE,
    plan,
    addresses: fixedAddresses([
      { name: "relayed", clusterIPs: ["198.51.100.9", "2001:db8::9"] },
      { name: "waiting", clusterIPs: [] },
    ]),
    headers: new HeaderDecisions({
      catalog: new TargetTable({ config, log: silentLogger }),
      clusterDomain: undefined,
      preferred: "v1",
    }),
    config,
    map: { synced: true, publishedNames: undefined, revision: undefined },
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

test("each name is listed with its object, target and addresses, or with the reason for the refusal", () => {
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
    ["other/bad", "bad name", undefined, 0, "name-invalid"],
    ["third/late", "a.example.com", undefined, 0, "conflict"],
    ["third/none", "d.example.com", undefined, 0, "no-target"],
  ]);
  for (const { reason } of names) assert.ok(reason === undefined || reason.text.length > 5);
});

const OK = { target: "relayed", created: "2026-01-01T00:00:00Z" };

test("of mapped names that resolve elsewhere, five are listed and the others counted; each has its warning", () => {
  const names = ["a", "b", "c", "d", "e", "f", "g"].map((name) => `${name}.example.com`);
  const away = { code: "dns-elsewhere", text: "it resolves to 203.0.113.1" };
  const warnings = (count: number) => {
    const isAway = (name: string) => names.indexOf(name) < count;
    const claims = names.map((name, index) =>
      claimOf(name, `${index}/x`, { ...OK, ...(isAway(name) && { warning: away }) }),
    );
    const dns = { answersOf: (name: string) => (isAway(name) ? Array(20).fill("203.0.113.1") : undefined) };
    return statusDocument(depsOf(planOf(...claims), { dns, config }));
  };
  assert.deepEqual(warnings(0).warnings, []);
  assert.deepEqual(warnings(1).warnings, [{ code: "dns-elsewhere", text: `a.example.com: ${away.text}` }]);
  const listed = names.slice(0, 5).join(", ");
  assert.equal(warnings(5).warnings[0]?.text, `5 names, ${listed}: ${away.text}`);
  assert.equal(warnings(7).warnings[0]?.text, `7 names, ${listed} and 2 more: ${away.text}`);
  const one = warnings(1);
  assert.deepEqual([one.names[0]?.resolved?.length, one.names[1]?.resolved], [20, undefined]);
  assert.deepEqual(one.names[0]?.warning, away);
  assert.ok(one.names.slice(1).every((name) => !("warning" in name)));
});

test("warns if a pod gets too many names, or more than it can hold; wildcards do not count", () => {
  const claims = Array.from({ length: 203 }, (_, index) =>
    claimOf(`n${index}.example.com`, `n${index}/x`, { target: "relayed" }),
  );
  const warnings = (count: number) =>
    statusDocument(depsOf(planOf(...claims.slice(0, count), claimOf("*.example.com", "w/x", { target: "relayed" }))))
      .warnings;
  assert.deepEqual(warnings(200), []);
  assert.deepEqual(
    warnings(201).map(({ code }) => code),
    ["many-names"],
  );
  assert.deepEqual(
    warnings(203).map(({ code, text }) => [code, text.includes("first 202 of 203 names")]),
    [["many-names", true]],
  );
});
