import assert from "node:assert/strict";
import { test } from "node:test";
import { claimOf } from "#test/arbitraries.ts";
import { createClaimPolicy, type PolicyRules } from "./claim-policy.ts";
import { BUILT_IN_SUFFIXES } from "./protected-names.ts";

const OPEN: PolicyRules = {
  allowDomains: [],
  denyDomains: [],
  namespaces: [],
  denyNamespaces: [],
  maxNamesPerNamespace: 1000,
};

function codeOf(hostname: string, rules: Partial<PolicyRules> = {}, clusterDomain?: string): string {
  return (
    createClaimPolicy({ ...OPEN, ...rules }, clusterDomain)(claimOf(hostname, "shop/web")).refused?.code ?? "allowed"
  );
}

const BUILT_IN: ReadonlyArray<readonly [hostname: string, code: string]> = [
  ["a.example.com", "allowed"],
  ["printer.local", "allowed"],
  ["*.example.com", "allowed"],
  ["kubernetes.default", "name-protected"],
  ["Kubernetes.Default.SVC", "name-protected"],
  ["web.shop.svc.cluster.local", "name-protected"],
  ["cluster.local", "name-protected"],
  ["a.localhost", "name-protected"],
  ["localhost.localdomain", "name-protected"],
  ["metadata.google.internal", "name-protected"],
  ["host.docker.internal", "name-protected"],
  ["acme-v02.api.letsencrypt.org", "name-protected"],
  ["notletsencrypt.org", "allowed"],
  ["letsencrypt.org.example.com", "allowed"],
  ["svc.example.com", "allowed"],
];
for (const [hostname, code] of BUILT_IN) {
  test(`${hostname} is ${code}, regardless of the rules`, () => {
    assert.equal(codeOf(hostname), code);
    assert.equal(codeOf(hostname, { allowDomains: ["*"] }), code);
  });
}

test("no namespace gets a protected name or a name below it, but any name that only ends like one", () => {
  for (const suffix of BUILT_IN_SUFFIXES) {
    const names = suffix.includes(".") ? [suffix, `a.${suffix}`, `*.${suffix}`] : [`a.${suffix}`, `*.b.${suffix}`];
    for (const name of names) assert.equal(codeOf(name), "name-protected");
    assert.equal(codeOf(`${suffix}.example.com`), "allowed", suffix);
  }
  assert.equal(codeOf("a.notsvc"), "allowed");
});

test("an evaluated claim has the name in lower case, and the claim itself", () => {
  const policy = createClaimPolicy(OPEN, undefined);
  const [plain, wild] = [claimOf("A.Example.com", "shop/web"), claimOf("*.Example.com", "shop/web")];
  assert.deepEqual(policy(plain), { claim: plain, name: "a.example.com", refused: undefined });
  assert.deepEqual(policy(wild), { claim: wild, name: "*.example.com", refused: undefined });
  const bad = policy(claimOf("a..b", "shop/web"));
  assert.deepEqual([bad.name, bad.refused?.code], ["a..b", "name-invalid"]);
});

test("the reason names the setting that refuses the claim", () => {
  const refused = (rules: Partial<PolicyRules>) =>
    createClaimPolicy({ ...OPEN, ...rules }, undefined)(claimOf("a.example.com", "shop/web")).refused;
  const namespace = {
    code: "namespace-not-allowed",
    text: "the namespace shop may not claim names (policy.namespaces)",
  };
  assert.deepEqual(refused({ namespaces: ["other"] }), namespace);
  assert.deepEqual(refused({ denyNamespaces: ["shop"] }), namespace);
  const denied = { code: "domain-not-allowed", text: '"a.example.com" is under policy.denyDomains' };
  assert.deepEqual(refused({ denyDomains: ["b.example.com", "*.example.com"] }), denied);
  const notAllowed = { code: "domain-not-allowed", text: '"a.example.com" is not under policy.allowDomains' };
  assert.deepEqual(refused({ allowDomains: ["b.example.com"] }), notAllowed);
  assert.equal(refused({ allowDomains: ["b.example.com", "a.example.com"], namespaces: ["other", "shop"] }), undefined);
});

test("the cluster domain is refused, and a wildcard of any depth above it, but not one of one label", () => {
  assert.equal(codeOf("web.shop.svc.k8s.corp.example", {}, "K8s.Corp.example."), "name-protected");
  assert.equal(codeOf("k8s.corp.example", {}, "k8s.corp.example"), "name-protected");
  assert.equal(codeOf("shop.corp.example", {}, "k8s.corp.example"), "allowed");
  assert.equal(codeOf("*.corp.example", {}, "k8s.corp.example"), "allowed");
  const policy = createClaimPolicy(OPEN, "k8s.corp.example");
  const code = (name: string) => policy(claimOf(name, "shop/web", { anyDepth: true })).refused?.code;
  assert.equal(code("*.corp.example"), "name-protected");
  assert.equal(code("*.shop.corp.example"), undefined);
});

const RULES: ReadonlyArray<readonly [rules: Partial<PolicyRules>, hostname: string, code: string]> = [
  [{ allowDomains: ["*.example.com"] }, "a.example.com", "allowed"],
  [{ allowDomains: ["*.example.com"] }, "example.com", "domain-not-allowed"],
  [{ allowDomains: ["*.example.com", "example.com"] }, "example.com", "allowed"],
  [{ denyDomains: ["*.secret.example.com"] }, "a.secret.example.com", "domain-not-allowed"],
  [{ denyDomains: ["*.example.com"], allowDomains: ["a.example.com"] }, "a.example.com", "domain-not-allowed"],
  [{ namespaces: ["shop"] }, "a.example.com", "allowed"],
  [{ namespaces: ["other"] }, "a.example.com", "namespace-not-allowed"],
  [{ denyNamespaces: ["shop"] }, "a.example.com", "namespace-not-allowed"],
  [{ namespaces: ["shop"], denyNamespaces: ["shop"] }, "a.example.com", "namespace-not-allowed"],
  [{ namespaces: ["other"], denyDomains: ["*"] }, "a.example.com", "namespace-not-allowed"],
  // An invalid pattern must not allow anything.
  [{ allowDomains: ["no_pattern"] }, "a.example.com", "domain-not-allowed"],
];
for (const [rules, hostname, code] of RULES) {
  test(`with ${JSON.stringify(rules)} ${hostname} is ${code}`, () => assert.equal(codeOf(hostname, rules), code));
}

test("an invalid name keeps its text, and is refused for that before any rule applies", () => {
  const evaluated = createClaimPolicy({ ...OPEN, denyDomains: ["*"] }, undefined)(claimOf("a b", "shop/web"));
  assert.equal(evaluated.name, "a b");
  assert.equal(evaluated.refused?.code, "name-invalid");
});

test("a claim without a target is refused with the source's reason, unless its name is already refused", () => {
  const reason = { code: "no-target", text: "no target serves the class" };
  const policy = createClaimPolicy(OPEN, undefined);
  assert.deepEqual(policy(claimOf("a.example.com", "shop/web", { target: reason })).refused, reason);
  assert.equal(policy(claimOf("a.localhost", "shop/web", { target: reason })).refused?.code, "name-protected");
});
