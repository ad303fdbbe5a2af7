import assert from "node:assert/strict";
import { test } from "node:test";
import { isOptedIn } from "./pod-opt-in.ts";

const RULES = { excluded: new Set(["kube-system"]), listed: new Set(["listed"]) };
const POD = { namespace: "shop", inject: undefined, mirror: false };
const ENABLED = { inject: "enabled", onChange: undefined };

for (const [what, pod, namespace, expected] of [
  ["neither label", POD, { inject: undefined, onChange: "live" }, false],
  ["a namespace that is not known", POD, undefined, false],
  ["the namespace's label", POD, ENABLED, true],
  ["the pod's label", { ...POD, inject: "enabled" }, undefined, true],
  ["a pod that opts out", { ...POD, inject: "disabled" }, ENABLED, false],
  ["a listed namespace", { ...POD, namespace: "listed" }, undefined, true],
  ["a listed namespace that opts out", { ...POD, namespace: "listed" }, { ...ENABLED, inject: "disabled" }, false],
  ["a mirror pod", { ...POD, mirror: true }, ENABLED, false],
  ["an excluded namespace", { ...POD, namespace: "kube-system", inject: "enabled" }, ENABLED, false],
] as const) {
  test(`${what}: ${expected ? "opted in" : "not opted in"}`, () => {
    assert.equal(isOptedIn(pod, namespace, RULES), expected);
  });
}
