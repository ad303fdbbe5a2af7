import assert from "node:assert/strict";
import { test } from "node:test";
import { effectiveVia } from "./via.ts";

for (const [pod, namespace, fallback, expected] of [
  [undefined, undefined, "hosts", "hosts"],
  [undefined, undefined, "dns", "dns"],
  [undefined, "dns", "hosts", "dns"],
  [undefined, "hosts", "dns", "hosts"],
  ["dns", "hosts", "hosts", "dns"],
  ["hosts", "dns", "dns", "hosts"],
] as const) {
  test(`pod ${pod}, namespace ${namespace}, install ${fallback}: ${expected}`, () => {
    assert.deepEqual(effectiveVia({ pod, namespace, fallback }), { via: expected });
  });
}

test("an invalid label of the pod is ignored, with a reason", () => {
  for (const [namespace, via] of [
    ["dns", "dns"],
    [undefined, "hosts"],
  ] as const) {
    const found = effectiveVia({ pod: "DNS", namespace, fallback: "hosts" });
    assert.deepEqual([found.via, found.problem?.code], [via, "via-invalid"]);
  }
});
