import assert from "node:assert/strict";
import { test } from "node:test";
import { createPermissions } from "./namespace-claims.ts";

const RULES = [
  { namespaces: ["shop"], domains: ["*.shop.example.com", "shop.example.com"] },
  { namespaces: ["shop", "api"], domains: ["api.example.com"] },
  { namespaces: ["*"], domains: ["*.apps.example.com"] },
];
const ANNOTATIONS: Record<string, string> = { team: " *.team.example.com,\n one.example.com *..bad ", empty: "" };

const CASES: ReadonlyArray<readonly [namespace: string, name: string, rules: boolean, annotation: boolean]> = [
  ["shop", "shop.example.com", true, true],
  ["shop", "a.b.shop.example.com", true, true],
  ["shop", "*.shop.example.com", true, true],
  ["shop", "*.example.com", false, false],
  ["shop", "example.com", false, false],
  ["shop", "api.example.com", true, true],
  ["api", "api.example.com", true, true],
  ["api", "shop.example.com", false, false],
  ["other", "x.apps.example.com", true, true],
  ["other", "apps.example.com", false, false],
  ["team", "x.team.example.com", false, true],
  ["team", "one.example.com", false, true],
  ["team", "two.example.com", false, false],
  ["empty", "x.team.example.com", false, false],
];
for (const [namespace, name, byRule, byAnnotation] of CASES) {
  test(`${namespace} and ${name}: ${byRule ? "by rule" : byAnnotation ? "by annotation alone" : "refused"}`, () => {
    assert.equal(createPermissions(RULES)(name, namespace) === undefined, byRule);
    const permit = createPermissions(RULES, (of) => ANNOTATIONS[of]);
    assert.equal(permit(name, namespace) === undefined, byAnnotation);
    assert.equal(permit(name, namespace) === undefined, byAnnotation, "second call");
  });
}

test("without rules and annotations, every namespace may claim every name", () => {
  assert.equal(createPermissions([])("a.example.com", "anybody"), undefined);
});

test("if annotations are enabled, a namespace without one may claim nothing, and the reason names the settings", () => {
  assert.deepEqual(createPermissions([], () => undefined)("a.example.com", "shop"), {
    code: "claim-not-allowed",
    text: 'the namespace shop may not claim "a.example.com" (policy.claims, the namespace\'s switchback.dev/domains)',
  });
  assert.match(createPermissions(RULES)("a.example.com", "shop")?.text ?? "", /\(policy\.claims\)$/);
});
