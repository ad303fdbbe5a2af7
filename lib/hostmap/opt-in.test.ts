import assert from "node:assert/strict";
import { test } from "node:test";
import { isNamespaceOptedIn } from "./opt-in.ts";

const RULES = { excluded: new Set(["kube-system", "switchback-system"]), listed: new Set(["cert-manager"]) };

test("a namespace opts in by its label or its name, unless it is excluded", () => {
  const labels = [undefined, "enabled", "disabled", "true"];
  const of = (name: string, rules = RULES) => labels.map((label) => isNamespaceOptedIn(name, label, rules));
  assert.deepEqual(of("shop"), [false, true, false, false]);
  assert.deepEqual(of("cert-manager"), [true, true, false, true]);
  assert.deepEqual(of("kube-system"), [false, false, false, false]);
  assert.deepEqual(of("kube-system", { ...RULES, listed: RULES.excluded }), [false, false, false, false]);
});
