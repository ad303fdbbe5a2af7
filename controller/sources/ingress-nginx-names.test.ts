import assert from "node:assert/strict";
import { test } from "node:test";
import { createClaimPolicy } from "#hostmap/claim-policy.ts";
import { Plan } from "#hostmap/plan.ts";
import { parseConfig } from "#lib/config/parse.ts";
import { anyText, fc } from "#test/property.ts";
import { isIngressNginx, nginxClaims, nginxNames } from "./ingress-nginx-names.ts";

const ALIAS = "nginx.ingress.kubernetes.io/server-alias";
const WWW = "nginx.ingress.kubernetes.io/from-to-www-redirect";
const HOSTS = ["main.com"];
const names = (annotations: Record<string, unknown>, ruleHosts: readonly string[] = HOSTS, hosts = ruleHosts) =>
  nginxNames(annotations, ruleHosts, hosts);

const VIEW = { ref: { kind: "Ingress", namespace: "shop", name: "web" }, created: "t" };
const HINTS = { className: "nginx", addresses: [], admitted: true };

function claims(annotations: Record<string, unknown>) {
  const found = names(annotations);
  assert.ok(found !== undefined);
  return nginxClaims(VIEW, found, HINTS).map((claim) => {
    const reason = "code" in claim.hints ? ` ${claim.hints.code}` : "";
    return `${claim.hostname}${claim.anyDepth ? " anyDepth" : ""}${reason}`;
  });
}

// Source: kubernetes/ingress-nginx, internal/ingress/annotations/alias/main_test.go, TestParse.
for (const [alias, expected] of [
  ["a.com, b.com, ,    c.com", ["a.com", "b.com", "c.com"]],
  ["www.example.com", ["www.example.com"]],
  ["*.example.com,www.example.*", ["*.example.com", "www.example.*"]],
  ["~^www\\d+\\.example\\.com$", ["~^www\\d+\\.example\\.com$"]],
  ["www.xpto;lala", "www.xpto;lala"],
  ["a.com,a.com, main.com", ["a.com"]],
  ["a.com,b com", "b com"],
  ["a.com\nb.com", "a.com\nb.com"],
] as const) {
  test(`the aliases of ${JSON.stringify(alias)}`, () => {
    const found = names({ [ALIAS]: alias });
    assert.deepEqual(typeof expected === "string" ? found?.invalid : found?.names, expected);
    if (typeof expected === "string") assert.deepEqual(found?.names, []);
  });
}

test("no names come from missing, empty or mistyped annotations, a canary, or an Ingress without a rule", () => {
  const canary = { "nginx.ingress.kubernetes.io/canary": "true" };
  for (const annotations of [{}, { [ALIAS]: "" }, { [ALIAS]: "a.com", ...canary }, { [ALIAS]: 7, [WWW]: true }]) {
    assert.equal(names(annotations), undefined, JSON.stringify(annotations));
  }
  assert.deepEqual(names({ [ALIAS]: "a.com" }, []), { names: [], invalid: undefined });
  assert.deepEqual(names({ [ALIAS]: "a.com" }, [""])?.names, ["a.com"], "the server for all names has aliases, too");
});

test("each rule's host also adds its name with or without www., as in BuildRedirects", () => {
  for (const yes of ["true", "TRUE", "True", "t", "T", "1"]) {
    assert.deepEqual(names({ [WWW]: yes }, ["main.com", "www.shop.com", "", "*.wild.com"])?.names, [
      "www.main.com",
      "shop.com",
    ]);
  }
  for (const no of ["false", "yes", "tRUE", "0", " true"]) assert.equal(names({ [WWW]: no }), undefined, no);
  const both = ["main.com", "www.main.com"];
  assert.deepEqual(names({ [WWW]: "true" }, both)?.names, [], "a host is no redirect");
  assert.deepEqual(names({ [WWW]: "true" }, ["main.com"], both)?.names, [], "nor is a host of its certificate");
});

test("the class or its controller tells whether ingress-nginx serves an Ingress", () => {
  for (const [className, controller, expected] of [
    ["nginx", undefined, true],
    ["other", undefined, false],
    [undefined, undefined, false],
    ["edge", "k8s.io/ingress-nginx", true],
    ["nginx", "nginx.org/ingress-controller", false],
  ] as const) {
    assert.equal(isIngressNginx(className, controller), expected, `${className} ${controller}`);
  }
});

test("an alias is a claim of the Ingress, its wildcards cover any depth, and an invalid alias has a reason", () => {
  const more = { [ALIAS]: "a.com, *.b.com", [WWW]: "true" };
  assert.deepEqual(claims(more), ["www.main.com", "a.com", "*.b.com anyDepth"]);
  assert.deepEqual(claims({ [ALIAS]: "a.com b.com", [WWW]: "true" }), ["a.com b.com not-accepted"]);
});

test("aliases count towards the quota of their namespace", () => {
  const plan = new Plan(createClaimPolicy(parseConfig({}).policy, undefined), 3);
  const found = names({ [ALIAS]: "a.com,b.com,c.com,d.com" });
  assert.ok(found !== undefined);
  const claimed = nginxClaims(VIEW, found, HINTS).map(({ hints: _, ...claim }) => ({ ...claim, target: "edge" }));
  plan.set("shop/web", claimed);
  plan.takeChanges();
  assert.equal(plan.planned.size, 3);
});

test("hostile: a quarter of a megabyte of aliases takes bounded time, and is reported", () => {
  const begun = process.cpuUsage();
  for (const text of [",".repeat(262_144), "a,".repeat(131_072), `${"x".repeat(262_000)},a.com`]) {
    assert.ok(claims({ [ALIAS]: text }).length <= 2);
  }
  const many = claims({ [ALIAS]: Array.from({ length: 20_000 }, (_, index) => `h${index}.com`).join() });
  assert.deepEqual([many.length, many.at(-1)], [1_001, "h1000.com too-many-names"]);
  const { user, system } = process.cpuUsage(begun);
  assert.ok((user + system) / 1_000 < 500, `${(user + system) / 1_000} ms`);
});

test("property: any annotations are read without an exception, and no claim has an empty name", () => {
  const value = fc.oneof(anyText(), fc.jsonValue());
  const property = fc.property(value, value, fc.array(anyText()), (alias, www, hosts) => {
    const found = names({ [ALIAS]: alias, [WWW]: www }, hosts);
    if (found !== undefined) for (const { hostname } of nginxClaims(VIEW, found, HINTS)) assert.ok(hostname !== "");
  });
  fc.assert(property);
});
