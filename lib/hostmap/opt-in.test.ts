import assert from "node:assert/strict";
import { test } from "node:test";
import { INJECT_KEY } from "./metadata-keys.ts";
import { decideOptIn, isNamespaceOptedIn, MIRROR_KEY, type OptInFacts } from "./opt-in.ts";

const RULES = { excluded: new Set(["kube-system", "switchback-system"]), listed: new Set(["cert-manager"]) };

function decision(pod: string | undefined, namespace: string | undefined, parts: Partial<OptInFacts> = {}): string {
  const { optedIn, code } = decideOptIn({
    namespace: "shop",
    labels: pod === undefined ? {} : { [INJECT_KEY]: pod },
    annotations: {},
    namespaceLabels: namespace === undefined ? {} : { [INJECT_KEY]: namespace },
    rules: RULES,
    ...parts,
  });
  return `${optedIn ? "in" : "out"}: ${code}`;
}

const TABLE: ReadonlyArray<readonly [pod: string | undefined, namespace: string | undefined, decision: string]> = [
  [undefined, undefined, "out: not-opted-in"],
  [undefined, "enabled", "in: namespace"],
  ["enabled", undefined, "in: pod"],
  ["enabled", "enabled", "in: pod"],
  ["enabled", "disabled", "in: pod"],
  ["disabled", "enabled", "out: pod-disabled"],
  ["disabled", undefined, "out: pod-disabled"],
  // An unknown value of the pod label has no effect: the namespace's webhook selects by NotIn [enabled, disabled].
  ["true", "enabled", "in: namespace"],
  ["true", undefined, "out: not-opted-in"],
  [undefined, "true", "out: not-opted-in"],
];

for (const [pod, namespace, expected] of TABLE) {
  test(`pod label ${pod}, namespace label ${namespace}: ${expected}`, () => {
    assert.equal(decision(pod, namespace), expected);
  });
}

for (const [pod, namespace, expected] of [
  [undefined, undefined, "in: namespace"],
  [undefined, "enabled", "in: namespace"],
  [undefined, "true", "in: namespace"],
  [undefined, "disabled", "out: not-opted-in"],
  ["enabled", "disabled", "in: pod"],
  ["disabled", undefined, "out: pod-disabled"],
  ["true", undefined, "in: namespace"],
] as const) {
  test(`in a listed namespace: pod label ${pod}, namespace label ${namespace}: ${expected}`, () => {
    assert.equal(decision(pod, namespace, { namespace: "cert-manager" }), expected);
  });
}

test("a namespace opts in by its label or its name, unless it is excluded", () => {
  const labels = [undefined, "enabled", "disabled", "true"];
  const of = (name: string, rules = RULES) => labels.map((label) => isNamespaceOptedIn(name, label, rules));
  assert.deepEqual(of("shop"), [false, true, false, false]);
  assert.deepEqual(of("cert-manager"), [true, true, false, true]);
  assert.deepEqual(of("kube-system"), [false, false, false, false]);
  assert.deepEqual(of("kube-system", { ...RULES, listed: RULES.excluded }), [false, false, false, false]);
});

test("an excluded namespace is never injected, whatever its labels", () => {
  assert.equal(decision("enabled", "enabled", { namespace: "kube-system" }), "out: namespace-excluded");
});

test("a mirror pod is never injected, whatever its labels", () => {
  assert.equal(decision("enabled", "enabled", { annotations: { [MIRROR_KEY]: "" } }), "out: mirror-pod");
});
