import assert from "node:assert/strict";
import { test } from "node:test";
import { createClaimPolicy } from "#hostmap/claim-policy.ts";
import { renderHosts } from "#hostmap/hosts-text.ts";
import { Plan } from "#hostmap/plan.ts";
import { claimOf } from "#test/arbitraries.ts";
import { LeaderMap } from "./leader-map.ts";

const RULES = { allowDomains: [], denyDomains: [], namespaces: [], denyNamespaces: [], maxNamesPerNamespace: 100 };
const REMOVAL = { vanishSeconds: 0.06, guardHoldSeconds: 0.3 };
const [A, B] = ["198.51.100.1", "198.51.100.2"];
const EDGE = (address: string) => [{ name: "edge", clusterIPs: [address] }];

/** A term that begins with these published lines, and a plan of names. All names have the target `edge`. */
function rig(published: Readonly<Record<string, string>> = {}) {
  const plan = new Plan(createClaimPolicy(RULES, undefined), RULES.maxNamesPerNamespace);
  const lines = new Map(Object.entries(published).map(([name, address]) => [name, { name, addresses: [address] }]));
  const map = new LeaderMap(REMOVAL, plan, lines, []);
  const claim = (name: string, target = "edge") =>
    plan.set(name, target === "none" ? [] : [claimOf(name, `shop/${name}`, { target })]);
  const update = (targets: Parameters<LeaderMap["update"]>[1], now = 0, isComplete = true) =>
    map.update(plan.takeChanges(), targets, now, isComplete);
  /** The published lines, in order, without holders. */
  const text = (now = 0) => {
    map.settle(now);
    const lines = Array.from(map.names.lines.values(), ({ name, addresses }) => ({ name, addresses }));
    return renderHosts(lines).split("\n").slice(0, -1);
  };
  return { plan, lines, map, claim, update, text };
}

test("a wildcard at any depth is published with the plain wildcard, and each leaves once no claim needs it", () => {
  const { plan, map, update, text } = rig();
  const both = [`#wildcard ${A} *.a.com`, `#wildcard ${A} **.a.com`];
  plan.set("route", [claimOf("*.a.com", "shop/route", { target: "edge", anyDepth: true })]);
  update(EDGE(A));
  assert.deepEqual(text(), both);
  assert.deepEqual([map.names.lineOf("*.a.com")?.addresses, map.names.lineOf("**.a.com")?.addresses], [[A], [A]]);
  update(EDGE(B));
  assert.deepEqual(map.names.lineOf("**.a.com")?.addresses, [B]);
  plan.set("ingress", [claimOf("*.a.com", "shop/ingress", { target: "edge" })]);
  plan.set("route", []);
  update(EDGE(B), 500);
  text(560);
  assert.deepEqual([map.names.lineOf("*.a.com")?.addresses, map.names.lineOf("**.a.com")?.addresses], [[B], undefined]);
  plan.set("ingress", []);
  update(EDGE(B), 600);
  assert.deepEqual(text(660), []);
});

test("a new term keeps a planned wildcard at any depth, and releases the others", () => {
  const { plan, lines, map, update, text } = rig({ "*.a.com": A, "**.a.com": A, "*.b.com": A, "**.b.com": A });
  plan.set("route", [claimOf("*.a.com", "shop/route", { target: "edge", anyDepth: true })]);
  plan.set("ingress", [claimOf("*.b.com", "shop/ingress", { target: "edge" })]);
  update(EDGE(A));
  text(60);
  assert.deepEqual(
    [...lines.keys()].filter((name) => map.names.lineOf(name)?.addresses !== undefined),
    ["*.a.com", "**.a.com", "*.b.com"],
  );
});

test("a name whose target is not known stays while its namespace is back with an undecided claim", () => {
  const { plan, map, update, text } = rig({ "back.com": A });
  map.names.load([{ name: "held.com", addresses: [A], holder: "shop", target: undefined }]);
  update(EDGE(B), 1_000);
  const pending = { target: { code: "dns-not-verified", text: "waits" }, undecided: true as const, maybe: "edge" };
  plan.set("held.com", [claimOf("held.com", "shop/held.com", pending)]);
  update(EDGE(B), 1_010);
  assert.deepEqual(text(1_010), [`${A} back.com`, `${A} held.com`]);
  assert.deepEqual(text(2_000), [`${A} held.com`]);
});
