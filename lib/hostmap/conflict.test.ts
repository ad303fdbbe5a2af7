import assert from "node:assert/strict";
import { test } from "node:test";
import { claimOf } from "#test/arbitraries.ts";
import { createClaimPolicy } from "./claim-policy.ts";
import { Plan } from "./plan.ts";
import type { Claim } from "./types.ts";

const RULES = { allowDomains: [], denyDomains: [], namespaces: [], denyNamespaces: [], maxNamesPerNamespace: 3 };
const OLD = "2025-01-01T00:00:00Z";
const NEW = "2026-01-01T00:00:00Z";

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
  plan.setPublished((name) => lineOf(name, holders[name]), Object.keys(holders));
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
  const reason = { code: "dns-pending", text: "waits" };
  const pending = { ...claimOf(name, "a/x"), target: reason, pending: "edge" };
  const plan = planOf(["a/x", [pending]], ["b/x", [pending]]);
  publish(plan, { [name]: "a" });
  plan.set("b/x", []);
  assert.equal(plan.takeChanges().size, 0);
  plan.set("a/x", [{ ...claimOf(name, "a/x"), target: reason }]);
  assert.deepEqual([...plan.takeChanges()], [[name, undefined]]);
});

const UNDECIDED = { target: { code: "header-unknown", text: "nobody has asked yet" }, pending: "other" };

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

test("a wildcard gets no name that an older object of another namespace does without; a mapped one stays", () => {
  const name = "shop.example.com";
  const ignored = claimOf(name, "shop/web", { target: { code: "ignored", text: "it says so" } });
  const wildcard = (object: string, created = NEW) => claimOf("*.example.com", object, { created });
  const plan = planOf(["shop/web", [ignored]], ["tenant/web", [wildcard("tenant/web", "2026-06-01T00:00:00Z")]]);
  assert.equal(codes(plan)["tenant/web *.example.com"], "conflict");
  plan.set("shop/wild", [wildcard("shop/wild", "2026-06-02T00:00:00Z")]);
  plan.takeChanges();
  assert.equal(codes(plan)["shop/wild *.example.com"], "ingress-nginx", "its own namespace");
  plan.set("shop/wild", []);
  plan.set("tenant/web", [wildcard("tenant/web", OLD)]);
  plan.takeChanges();
  assert.equal(codes(plan)["tenant/web *.example.com"], "ingress-nginx", "it is older");
  plan.set("tenant/web", []);
  plan.takeChanges();
  publish(plan, { "*.example.com": "tenant" });
  plan.set("tenant/web", [wildcard("tenant/web", "2026-06-01T00:00:00Z")]);
  plan.takeChanges();
  assert.equal(codes(plan)["tenant/web *.example.com"], "ingress-nginx", "nobody takes a published wildcard away");
  plan.set("shop/web", []);
  plan.set("tenant/young", [wildcard("tenant/young", "2026-06-01T00:00:00Z")]);
  assert.equal(plan.takeChanges().size, 0);
});

test("an older guard falls out of the quota of its namespace: the wildcard above it is mapped", () => {
  const ignored = (name: string, object: string, created: string) =>
    claimOf(name, object, { target: { code: "ignored", text: "it says so" }, created });
  const plan = planOf(
    ["tenant/web", [ignored("shop.example.com", "tenant/web", "2025-06-01T00:00:00Z")]],
    ["shop/web", [claimOf("*.example.com", "shop/web", { created: NEW })]],
  );
  assert.equal(codes(plan)["shop/web *.example.com"], "conflict");
  const older = ["a", "b", "c"].map((label) => ignored(`${label}.example.net`, "tenant/more", OLD));
  plan.set("tenant/more", older);
  plan.takeChanges();
  assert.equal(codes(plan)["shop/web *.example.com"], "ingress-nginx");
  plan.set("tenant/more", []);
  plan.takeChanges();
  assert.equal(codes(plan)["shop/web *.example.com"], "conflict");
});

test("a tenant has 1,000 wildcards above 20,000 names without a mapping: no step takes over 50 ms of CPU", () => {
  const plan = new Plan(createClaimPolicy(RULES, undefined), 1_000);
  const without = { target: { code: "load-balancer-hostname", text: "needs none" }, created: OLD };
  for (let index = 0; index < 20_000; index += 1) {
    plan.set(`n${index}/web`, [claimOf(`web.n${index}.example.com`, `n${index}/web`, without)]);
  }
  const hosts = Array.from({ length: 500 }, (_, index) => [
    `*.n${index}.example.com`,
    `*.n${index}.example.net`,
  ]).flat();
  const wildcards = (host: string, index: number) =>
    [
      `tenant/w${index}`,
      [claimOf(index % 2 === 0 ? "*.example.com" : host, `tenant/w${index}`, { created: NEW })],
    ] as const;
  plan.takeChanges();
  const steps = [
    () =>
      plan.set(
        "tenant/all",
        hosts.map((host) => claimOf(host, "tenant/all", { created: NEW })),
      ),
    () => plan.takeChanges(),
    () => [...plan.decisionsOf("tenant/all")],
    () => plan.set("tenant/all", []),
    () => hosts.map((host, index) => plan.set(...wildcards(host, index))),
    () => plan.takeChanges(),
    () => hosts.map((_, index) => [...plan.decisionsOf(`tenant/w${index}`)]),
  ];
  const times = steps.map((step) => {
    const before = process.cpuUsage();
    step();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  });
  assert.ok(Math.max(...times) < 50, times.join(" "));
});
