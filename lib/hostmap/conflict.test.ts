import assert from "node:assert/strict";
import { test } from "node:test";
import { claimOf } from "#test/arbitraries.ts";
import { createClaimPolicy } from "./claim-policy.ts";
import { Plan } from "./plan.ts";
import type { Claim } from "./types.ts";

const RULES = { allowDomains: [], denyDomains: [], namespaces: [], denyNamespaces: [], maxNamesPerNamespace: 3 };
const OLD = "2025-01-01T00:00:00Z";

function planOf(...objects: ReadonlyArray<readonly [object: string, claims: readonly Claim[]]>): Plan {
  const plan = new Plan(createClaimPolicy(RULES, undefined), RULES.maxNamesPerNamespace);
  for (const [object, claims] of objects) plan.set(object, claims);
  plan.takeChanges();
  return plan;
}

/** Makes the plan that of a leader whose map has these names, each with its holder and the target `edge`. */
function publish(plan: Plan, holders: Readonly<Record<string, string>>): void {
  const lineOf = (name: string, holder: string | undefined) =>
    holder === undefined ? undefined : { name, addresses: ["10.96.0.1"], order: 1, holder, target: "edge" };
  plan.setPublished((name) => lineOf(name, holders[name]));
}

function codes(plan: Plan): Record<string, string> {
  return Object.fromEntries(
    [...plan.report()].map(({ name, from, decision }) => [
      `${from.namespace}/${from.name} ${name}`,
      decision.mapped ? decision.target : decision.reason.code,
    ]),
  );
}

test("a published name is reported when its claim is decided, even if this leader never planned it", () => {
  const name = "a.example.com";
  const reason = { code: "dns-not-verified", text: "waits" };
  const pending = { ...claimOf(name, "a/x"), target: reason, undecided: true as const, maybe: "edge" };
  const plan = planOf(["a/x", [pending]], ["b/x", [pending]]);
  publish(plan, { [name]: "a" });
  plan.set("b/x", []);
  assert.equal(plan.takeChanges().size, 0);
  plan.set("a/x", [{ ...claimOf(name, "a/x"), target: reason }]);
  assert.deepEqual([...plan.takeChanges()], [[name, undefined]]);
});

const UNDECIDED = {
  target: { code: "header-unknown", text: "nobody has asked yet" },
  undecided: true as const,
  maybe: "other",
};

test("an undecided claim of another namespace does not hold a name whose owner deletes or ignores its object", () => {
  const name = "a.example.com";
  for (const owner of [[], [claimOf(name, "shop/web", { target: { code: "ignored", text: "it says so" } })]]) {
    const plan = planOf(["tenant/web", [claimOf(name, "tenant/web", { ...UNDECIDED, created: OLD })]]);
    plan.set("shop/web", [claimOf(name, "shop/web", { target: "edge" })]);
    publish(plan, { [name]: "shop" });
    assert.deepEqual(
      [...plan.takeChanges().values()].map((each) => each?.target),
      ["edge"],
    );
    plan.set("shop/web", owner);
    assert.deepEqual([...plan.takeChanges()], [[name, undefined]]);
  }
});

test("an undecided claim of the holder keeps the name; without a holder it keeps younger claims away", () => {
  const name = "a.example.com";
  const plan = planOf(["shop/web", [claimOf(name, "shop/web", { ...UNDECIDED, created: OLD })]]);
  plan.set("tenant/web", [claimOf(name, "tenant/web", { target: "edge-of-tenant" })]);
  assert.equal(plan.takeChanges().size, 0, "the undecided object is older");
  assert.deepEqual(codes(plan)[`tenant/web ${name}`], "conflict");
  publish(plan, { [name]: "shop" });
  assert.equal(plan.takeChanges().size, 0);
  plan.set("shop/web", []);
  publish(plan, {});
  assert.deepEqual(
    [...plan.takeChanges().values()].map((each) => each?.target),
    ["edge-of-tenant"],
  );
});

test("a claim that does without a mapping counts in its quota", () => {
  const ignored = (name: string) => claimOf(name, "shop/web", { target: { code: "ignored", text: "it says so" } });
  const plan = planOf(["shop/web", ["a", "b", "c", "d"].map((label) => ignored(`${label}.example.com`))]);
  const later = { created: "2026-06-01T00:00:00Z" };
  plan.set(
    "tenant/web",
    ["c", "d"].map((label) => claimOf(`${label}.example.com`, "tenant/web", later)),
  );
  plan.takeChanges();
  assert.deepEqual(codes(plan)["tenant/web c.example.com"], "conflict");
  assert.deepEqual(codes(plan)["tenant/web d.example.com"], "ingress-nginx");
});

test("a policy that refuses the holder ends it: another namespace can get the name", () => {
  const name = "a.example.com";
  const domains = new Map([
    ["shop", name],
    ["tenant", name],
  ]);
  const plan = new Plan(
    createClaimPolicy(RULES, undefined, (namespace) => domains.get(namespace)),
    3,
  );
  plan.set("shop/web", [claimOf(name, "shop/web", { target: "edge" })]);
  plan.set("tenant/web", [claimOf(name, "tenant/web", { target: "edge" })]);
  publish(plan, { [name]: "shop" });
  assert.deepEqual(
    [...plan.takeChanges().values()].map((each) => each?.holder),
    ["shop"],
  );
  domains.delete("shop");
  plan.reevaluate("shop");
  assert.deepEqual(
    [...plan.takeChanges().values()].map((each) => each?.holder),
    ["tenant"],
  );
});
