import assert from "node:assert/strict";
import { test } from "node:test";
import { isOptedIn } from "./pod-opt-in.ts";

const EXCLUDED = new Set(["kube-system"]);
const POD = { namespace: "shop", inject: undefined, mirror: false };
const ENABLED = { inject: "enabled", onChange: undefined };

for (const [what, pod, namespace, expected] of [
  ["neither label", POD, { inject: undefined, onChange: "live" }, false],
  ["a namespace that is not known", POD, undefined, false],
  ["the namespace's label", POD, ENABLED, true],
  ["the pod's label", { ...POD, inject: "enabled" }, undefined, true],
  ["a pod that opts out", { ...POD, inject: "disabled" }, ENABLED, false],
  ["a mirror pod", { ...POD, mirror: true }, ENABLED, false],
  ["an excluded namespace", { ...POD, namespace: "kube-system", inject: "enabled" }, ENABLED, false],
] as const) {
  test(`${what}: ${expected ? "opted in" : "not opted in"}`, () => {
    assert.equal(isOptedIn(pod, namespace, EXCLUDED), expected);
  });
}
