import assert from "node:assert/strict";
import { test } from "node:test";
import { claimOf } from "#test/arbitraries.ts";
import { fc } from "#test/property.ts";
import { createClaimPolicy } from "./claim-policy.ts";
import { Plan } from "./plan.ts";
import type { Claim } from "./types.ts";

const RULES = {
  allowDomains: [],
  denyDomains: ["denied.example.com"],
  namespaces: [],
  denyNamespaces: [],
  maxNamesPerNamespace: 3,
};
const policy = createClaimPolicy(RULES, "cluster.local");
const OLD = "2025-01-01T00:00:00Z";
const NEW = "2026-01-01T00:00:00Z";

function planOf(...objects: ReadonlyArray<readonly [object: string, claims: readonly Claim[]]>): Plan {
  const plan = new Plan(policy, 3);
  for (const [object, claims] of objects) plan.set(object, claims);
  plan.takeChanges();
  return plan;
}

function targets(plan: Plan): Record<string, string> {
  return Object.fromEntries([...plan.planned.values()].map(({ name, target }) => [name, target]));
}

function codes(plan: Plan): Record<string, string> {
  return Object.fromEntries(
    [...plan.report()].map(({ name, from, decision }) => [
      `${from.namespace}/${from.name} ${name}`,
      decision.mapped ? decision.target : decision.reason.code,
    ]),
  );
}

test("if the claims of an object cannot be evaluated, it keeps its earlier claims", () => {
  let fails = false;
  const evaluate = createClaimPolicy(RULES, undefined);
  const plan = new Plan((claim) => {
    if (fails && claim.hostname.startsWith("odd")) throw new Error("odd");
    return evaluate(claim);
  }, 100);
  plan.set("a", [claimOf("a.example.com", "shop/a")]);
  plan.takeChanges();
  fails = true;
  assert.throws(() => plan.set("a", [claimOf("b.example.com", "shop/a"), claimOf("odd.example.com", "shop/a")]), /odd/);
  assert.equal(plan.takeChanges().size, 0);
  assert.deepEqual([...plan.planned.keys()], ["a.example.com"]);
  plan.set("a", []);
  assert.deepEqual([...plan.takeChanges()], [["a.example.com", undefined]]);
});

test("takeChanges returns each change since the last call only once", () => {
  const plan = new Plan(policy, 3);
  plan.set("shop/web", [claimOf("a.example.com", "shop/web")]);
  assert.deepEqual([...plan.takeChanges().keys()], ["a.example.com"]);
  assert.equal(plan.takeChanges().size, 0);
  plan.set("shop/web", [claimOf("a.example.com", "shop/web")]);
  assert.equal(plan.takeChanges().size, 0, "the same claims again");
  plan.set("shop/web", []);
  assert.deepEqual([...plan.takeChanges()], [["a.example.com", undefined]]);
  assert.deepEqual(targets(plan), {});
});

test("a name that was removed and added again between two calls is not a change", () => {
  const plan = planOf(["shop/web", [claimOf("a.example.com", "shop/web")]]);
  plan.set("shop/web", []);
  plan.set("shop/web", [claimOf("a.example.com", "shop/web")]);
  assert.equal(plan.takeChanges().size, 0);
});

test("the oldest object wins a name; the loser's reason names it, and the loser takes over when it is gone", () => {
  const plan = planOf(
    ["b/new", [claimOf("a.example.com", "b/new", { target: "two", created: NEW })]],
    ["a/old", [claimOf("A.example.com", "a/old", { target: "one", created: OLD })]],
  );
  assert.deepEqual(targets(plan), { "a.example.com": "one" });
  assert.deepEqual(codes(plan), { "b/new a.example.com": "conflict", "a/old a.example.com": "one" });
  const texts = [...plan.report()].map(({ decision }) => (decision.mapped ? "" : decision.reason.text));
  assert.match(texts.join(""), /^Ingress a\/old is older .* target one$/);
  plan.set("a/old", []);
  plan.takeChanges();
  assert.deepEqual(targets(plan), { "a.example.com": "two" });
});

test("objects created at the same time are ordered by namespace and name, whatever the arrival order", () => {
  const claims = ["b/x", "a/z", "a/y"].map(
    (object) => [object, [claimOf("a.example.com", object, { target: object.replace("/", "-") })]] as const,
  );
  for (const order of [claims, claims.toReversed()]) assert.equal(targets(planOf(...order))["a.example.com"], "a-y");
});

test("objects of two kinds with the same name are ordered by their keys, whatever the arrival order", () => {
  const claims = ["1/shop/web", "0/shop/web"].map(
    (key) => [key, [claimOf("a.example.com", "shop/web", { target: `of-${key[0]}` })]] as const,
  );
  for (const order of [claims, claims.toReversed()]) assert.equal(targets(planOf(...order))["a.example.com"], "of-0");
});

test("two claims for one name and one target are both mapped", () => {
  const plan = planOf(
    ["a/x", [claimOf("a.example.com", "a/x")]],
    ["b/y", [claimOf("a.example.com", "b/y", { created: OLD })]],
  );
  assert.deepEqual(codes(plan), { "a/x a.example.com": "ingress-nginx", "b/y a.example.com": "ingress-nginx" });
});

test("over its quota, a namespace keeps the names of its oldest objects, and a new object displaces none", () => {
  const plan = planOf(
    ["shop/old", ["c", "d"].map((name) => claimOf(`${name}.example.com`, "shop/old", { created: OLD }))],
    ["shop/new", ["a", "b"].map((name) => claimOf(`${name}.example.com`, "shop/new", { created: NEW }))],
    ["other/x", [claimOf("e.example.com", "other/x")]],
  );
  assert.deepEqual(
    Object.keys(targets(plan)).sort(),
    ["a", "c", "d", "e"].map((name) => `${name}.example.com`),
  );
  assert.equal(codes(plan)["shop/new b.example.com"], "namespace-quota");
});

test("a namespace under its quota again has all its names", () => {
  const plan = planOf(["shop/x", ["a", "b", "c", "d", "e"].map((name) => claimOf(`${name}.example.com`, "shop/x"))]);
  assert.equal(plan.planned.size, 3);
  plan.set(
    "shop/x",
    ["b", "d", "e"].map((name) => claimOf(`${name}.example.com`, "shop/x")),
  );
  assert.deepEqual(
    [...plan.takeChanges().keys()].sort(),
    ["a", "c", "d", "e"].map((name) => `${name}.example.com`),
    "a and c are removed, d and e fit now, b stays",
  );
  assert.deepEqual(Object.keys(targets(plan)).sort(), ["b.example.com", "d.example.com", "e.example.com"]);
});

test("a name over the quota of its namespace goes to the next claim", () => {
  const plan = planOf(
    ["shop/old", ["a", "b", "c"].map((name) => claimOf(`${name}.example.com`, "shop/old", { created: OLD }))],
    ["shop/new", [claimOf("d.example.com", "shop/new", { target: "one" })]],
    ["other/newest", [claimOf("d.example.com", "other/newest", { target: "two", created: "2026-06-01T00:00:00Z" })]],
  );
  assert.equal(targets(plan)["d.example.com"], "two");
});

test("a claim that the policy refuses wins no name, uses no quota and causes no conflict", () => {
  const plan = planOf(
    ["shop/x", ["denied.example.com", "a b", "a.localhost"].map((name) => claimOf(name, "shop/x", { created: OLD }))],
    ["shop/y", ["a", "b", "c"].map((name) => claimOf(`${name}.example.com`, "shop/y"))],
  );
  assert.equal(plan.planned.size, 3);
  assert.equal(codes(plan)["shop/x denied.example.com"], "domain-not-allowed");
});

const NAMES = ["a", "b", "c", "d", "e", "f"].map((label) => `${label}.example.com`);
const claims = fc.array(
  fc.record({
    hostname: fc.constantFrom(...NAMES, "A.example.com", "*.example.com", "denied.example.com", "bad name"),
    target: fc.constantFrom<Claim["target"]>("one", "two", { code: "no-target", text: "none" }),
  }),
  { maxLength: 5 },
);
const change = fc.record({
  object: fc.constantFrom("a/1", "a/2", "a/3", "b/1", "b/2", "c/1"),
  created: fc.constantFrom(OLD, NEW),
  claims,
  take: fc.boolean(),
});

test("property: after any changes in any order, an incrementally updated plan equals a new one", () => {
  fc.assert(
    fc.property(fc.array(change, { maxLength: 30 }), fc.infiniteStream(fc.nat()), (changes, chance) => {
      const updated = new Plan(policy, 3);
      const accumulated = new Map<string, string>();
      const hear = () => {
        for (const [name, planned] of updated.takeChanges()) {
          if (planned === undefined) accumulated.delete(name);
          else accumulated.set(name, planned.target);
        }
      };
      const content = new Map<string, readonly Claim[]>();
      for (const { object, created, claims: wishes, take } of changes) {
        const own = wishes.map(({ hostname, target }) => claimOf(hostname, object, { target, created }));
        content.set(object, own);
        updated.set(object, own);
        if (take) hear();
      }
      hear();
      const shuffled = [...content].map((entry) => ({ entry, at: chance.next().value })).sort((a, b) => a.at - b.at);
      const rebuilt = planOf(...shuffled.map(({ entry }) => entry));
      const sorted = (plan: Plan) => [...plan.planned].sort(([a], [b]) => (a < b ? -1 : 1));
      assert.deepEqual(sorted(updated), sorted(rebuilt));
      assert.deepEqual(Object.fromEntries(accumulated), targets(rebuilt), "the changes of takeChanges() add up");
      assert.deepEqual(codes(updated), codes(rebuilt));
      for (const namespace of ["a", "b", "c"]) {
        const own = [...rebuilt.planned.values()].filter(({ from }) => from.namespace === namespace);
        assert.ok(own.length <= 3, `${namespace} has ${own.length} names`);
      }
    }),
    { numRuns: 500 },
  );
});

test("when the permissions of a namespace change, only its claims are evaluated again", () => {
  const domains = new Map([["shop", "*.shop.example.com"]]);
  const evaluated: string[] = [];
  const policy = createClaimPolicy(RULES, undefined, (namespace) => domains.get(namespace));
  const plan = new Plan((claim) => {
    evaluated.push(claim.hostname);
    return policy(claim);
  }, 100);
  plan.set("shop/a", [claimOf("a.shop.example.com", "shop/a"), claimOf("b.example.com", "shop/a")]);
  plan.set("other/c", [claimOf("c.shop.example.com", "other/c")]);
  plan.takeChanges();
  assert.deepEqual([...plan.planned.keys()], ["a.shop.example.com"]);
  evaluated.length = 0;
  domains.set("shop", "b.example.com");
  plan.reevaluate("shop");
  plan.takeChanges();
  assert.deepEqual([[...plan.planned.keys()], evaluated], [["b.example.com"], ["a.shop.example.com", "b.example.com"]]);
});

test("targets that claims have or may get are listed, each with one of these names", () => {
  const plan = new Plan(createClaimPolicy(RULES, undefined), 100);
  plan.set("shop/a", [
    claimOf("a.example.com", "shop/a", { target: "one" }),
    claimOf("b.example.com", "shop/a", { target: "two" }),
  ]);
  plan.set("shop/b", [claimOf("c.example.com", "shop/b", { target: "two" })]);
  plan.takeChanges();
  assert.deepEqual([...plan.targets.keys()].sort(), ["one", "two"]);
  assert.deepEqual(
    [plan.targets.get("one"), plan.hasTarget("a.example.com", "one"), plan.hasTarget("a.example.com", "two")],
    ["a.example.com", true, false],
  );
  plan.set("shop/a", [claimOf("a.example.com", "shop/a", { target: "three" })]);
  plan.takeChanges();
  assert.deepEqual([...plan.targets.keys()].sort(), ["three", "two"]);
  plan.set("shop/b", [claimOf("a.example.com", "shop/b", { target: "two", created: NEW, aim: "own" })]);
  plan.takeChanges();
  assert.deepEqual([...plan.targets.keys()].sort(), ["own", "three", "two"], "also of a claim that lost");
  const waits = { target: { code: "header-unknown", text: "" }, undecided: true, maybe: "two", aim: "own" } as const;
  plan.set("shop/b", [claimOf("a.example.com", "shop/b", waits)]);
  assert.deepEqual([...plan.targets.keys()].sort(), ["own", "three", "two"], "also of one that waits");
  plan.set("shop/b", [claimOf("not a name", "shop/b", { target: "two" })]);
  plan.takeChanges();
  assert.deepEqual([...plan.targets.keys()], ["three"]);
});

test("while holders are not known, a name waits also if another namespace's claim is not decided yet", () => {
  const waits = { target: { code: "header-unknown", text: "" }, undecided: true, maybe: "edge" } as const;
  const plan = new Plan(policy, 3);
  plan.loseHolders(true);
  plan.set("shop/web", [claimOf("a.example.com", "shop/web", { ...waits, created: NEW })]);
  plan.set("tenant/web", [claimOf("a.example.com", "tenant/web", { target: "of-tenant", created: OLD })]);
  plan.takeChanges();
  assert.deepEqual(targets(plan), {});
  plan.loseHolders(false);
  plan.takeChanges();
  assert.deepEqual(targets(plan), { "a.example.com": "of-tenant" });
});

test("while holders are not known, a published name without a holder stays as it is", () => {
  const name = "a.example.com";
  const plan = new Plan(policy, 3);
  plan.setPublished(() => ({ name, addresses: ["192.0.2.1"], order: 0, holder: undefined, target: undefined }));
  plan.loseHolders(true);
  for (const from of ["shop/web", "tenant/web"]) plan.set(from, [claimOf(name, from, { target: from })]);
  assert.deepEqual([[...plan.takeChanges()], plan.isUndecided(name)], [[], true]);
  plan.loseHolders(false);
  assert.deepEqual([...plan.takeChanges().keys()], [name]);
});

test("a wildcard covers any depth if any object of its target says so, whichever object is the oldest", () => {
  const ingress = claimOf("*.example.com", "shop/ingress", { created: OLD });
  const route = claimOf("*.example.com", "shop/route", { created: NEW, anyDepth: true });
  const other = claimOf("*.example.com", "shop/other", { created: NEW, anyDepth: true, target: "istio" });
  const plan = planOf(["ingress", [ingress]], ["other", [other]]);
  const isAnyDepth = () => plan.planned.get("*.example.com")?.anyDepth;
  assert.equal(isAnyDepth(), undefined, "another target's meaning counts for nothing");
  plan.set("route", [route]);
  assert.deepEqual([...plan.takeChanges().keys()], ["*.example.com"]);
  assert.equal(isAnyDepth(), true);
  assert.equal(plan.planned.get("*.example.com")?.from.name, "ingress");
  plan.set("route", []);
  assert.deepEqual([...plan.takeChanges().keys()], ["*.example.com"]);
  assert.equal(isAnyDepth(), undefined);
});

test("if objects have different targets, the one whose target DNS leads to wins, whatever their ages", () => {
  const name = "a.example.com";
  const old = claimOf(name, "a/old", { target: "one", created: OLD });
  const young = claimOf(name, "b/new", { target: "two", created: NEW });
  const plan = planOf(["a/old", [old]], ["b/new", [{ ...young, verified: true }]]);
  assert.deepEqual(targets(plan), { [name]: "two" });
  assert.deepEqual(codes(plan), { [`a/old ${name}`]: "conflict", [`b/new ${name}`]: "two" });
  plan.set("a/old", [{ ...old, verified: true }]);
  plan.takeChanges();
  assert.deepEqual(targets(plan), { [name]: "one" }, "DNS does not decide: the oldest does");
});

test("a newer Service takes no name from a namespace that has it, whichever of its objects had it", () => {
  let isService = false;
  const plan = new Plan(policy, 3, () => (isService ? { code: "in-cluster-name", text: "" } : undefined));
  const [first, second] = ["shop/a", "shop/b"].map((from) => claimOf("a.example.com", from));
  assert.ok(first && second);
  plan.set("a", [first]);
  plan.set("b", [second]);
  plan.takeChanges();
  isService = true;
  plan.set("b", [{ ...second, publicAddresses: ["192.0.2.1"] }]);
  plan.set("a", []);
  plan.takeChanges();
  assert.ok(plan.planned.has("a.example.com"));
});
