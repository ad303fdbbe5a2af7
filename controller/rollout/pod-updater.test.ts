import assert from "node:assert/strict";
import { test } from "node:test";
import { isApplied } from "./pod-updater.ts";

for (const [what, state, expected] of [
  ["the map's revision and no list", { mapRevision: "m2", podRevisions: undefined }, true],
  ["an older map's revision and no list", { mapRevision: "m1", podRevisions: undefined }, false],
  ["an older map's revision, and a list with the pod's", { mapRevision: "m1", podRevisions: ["p1", "p2"] }, true],
  ["an older map's revision, and a list without it", { mapRevision: "m1", podRevisions: ["p1"] }, false],
  ["the map's revision, and a list without the pod's", { mapRevision: "m2", podRevisions: ["p1"] }, true],
  ["nothing", { mapRevision: undefined, podRevisions: undefined }, false],
] as const) {
  test(`if the updater reports ${what}, the pod ${expected ? "has" : "may not have"} its names`, () => {
    assert.equal(isApplied(state, { podRevision: "p2", mapRevision: "m2" }), expected);
  });
}
