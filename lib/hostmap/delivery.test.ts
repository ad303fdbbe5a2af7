import assert from "node:assert/strict";
import { test } from "node:test";
import { effectiveDelivery } from "./delivery.ts";

const others = [{ name: "dns" }];

for (const [pod, namespace, fallback, expected] of [
  [undefined, undefined, "hosts", "hosts"],
  [undefined, undefined, "dns", "dns"],
  [undefined, "dns", "hosts", "dns"],
  [undefined, "hosts", "dns", "hosts"],
  ["dns", "hosts", "hosts", "dns"],
  ["hosts", "dns", "dns", "hosts"],
] as const) {
  test(`pod ${pod}, namespace ${namespace}, install ${fallback}: ${expected}`, () => {
    assert.deepEqual(effectiveDelivery({ pod, namespace, fallback, others }), { delivery: expected });
  });
}

test("an invalid label of the pod is ignored, with a reason", () => {
  for (const [namespace, delivery] of [
    ["dns", "dns"],
    [undefined, "hosts"],
  ] as const) {
    const found = effectiveDelivery({ pod: "DNS", namespace, fallback: "hosts", others });
    assert.deepEqual([found.delivery, found.problem?.code], [delivery, "via-invalid"]);
  }
});
