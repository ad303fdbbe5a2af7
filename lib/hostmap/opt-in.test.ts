import assert from "node:assert/strict";
import { test } from "node:test";
import { INJECT_KEY } from "./metadata-keys.ts";
import { decideOptIn, MIRROR_KEY, type OptInFacts } from "./opt-in.ts";

const EXCLUDED = new Set(["kube-system", "switchback-system"]);

function decision(pod: string | undefined, namespace: string | undefined, parts: Partial<OptInFacts> = {}): string {
  const { optedIn, code } = decideOptIn({
    namespace: "shop",
    labels: pod === undefined ? {} : { [INJECT_KEY]: pod },
    annotations: {},
    namespaceLabels: namespace === undefined ? {} : { [INJECT_KEY]: namespace },
    excludedNamespaces: EXCLUDED,
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

test("an excluded namespace is never injected, regardless of labels", () => {
  assert.equal(decision("enabled", "enabled", { namespace: "kube-system" }), "out: namespace-excluded");
});

test("a mirror pod is never injected, regardless of labels", () => {
  assert.equal(decision("enabled", "enabled", { annotations: { [MIRROR_KEY]: "" } }), "out: mirror-pod");
});
