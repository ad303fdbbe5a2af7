import assert from "node:assert/strict";
import { test } from "node:test";
import { controllerOf, podFacts } from "./pods.ts";
import { truncate } from "./truncate.ts";

test("a text is unchanged up to the maximum length, and truncated above it", () => {
  assert.deepEqual(
    [truncate("abc", 3), truncate("abcd", 3), truncate("", 3), truncate(undefined, 3)],
    ["abc", "abc", "", undefined],
  );
});

test("an owner's texts are kept up to 512 characters", () => {
  const [whole, longer] = ["x".repeat(512), "x".repeat(513)];
  const owner = { apiVersion: longer, kind: longer, name: longer, uid: "u", controller: true };
  assert.deepEqual(controllerOf({ ownerReferences: [owner] }), { apiVersion: whole, kind: whole, name: whole });
});

test("annotations are kept up to 128 characters, and the names that a pod selects up to 16 KiB and one", () => {
  const length = (key: string, of: "hosts" | "revision" | "onChange" | "restartedAt") =>
    podFacts({ metadata: { annotations: { [`switchback.dev/${key}`]: "x".repeat(20_000) } } })[of]?.length;
  assert.deepEqual(
    [
      length("hosts", "hosts"),
      length("revision", "revision"),
      length("on-change", "onChange"),
      length("restartedAt", "restartedAt"),
    ],
    [16_385, 128, 128, 128],
  );
});
