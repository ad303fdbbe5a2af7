import assert from "node:assert/strict";
import { test } from "node:test";
import { listOf, mapOf, numberOf, textMapOf, textOf, textsOf } from "./raw-object.ts";

const VALUES: readonly unknown[] = ["a", "", 0, 1.5, true, null, undefined, [], ["a"], {}, { a: 1 }];
const list = VALUES[8];
const map = VALUES[10];

const READERS: ReadonlyArray<readonly [name: string, read: (value: unknown) => unknown, expected: readonly unknown[]]> =
  [
    ["textOf: a text that is not empty", textOf, ["a", ...Array(10).fill(undefined)]],
    ["numberOf", numberOf, [undefined, undefined, 0, 1.5, ...Array(7).fill(undefined)]],
    ["listOf", listOf, [[], [], [], [], [], [], [], [], list, [], []]],
    ["mapOf: neither a list nor null", mapOf, [{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, map]],
  ];
for (const [name, read, expected] of READERS) {
  test(`${name}; any other value counts as missing`, () => assert.deepEqual(VALUES.map(read), expected));
}

test("textsOf keeps the non-empty texts of a list, and textMapOf the entries of a map whose values are texts", () => {
  assert.deepEqual(textsOf(VALUES), ["a"]);
  assert.deepEqual(textsOf("a"), []);
  assert.deepEqual(textMapOf({ a: "x", b: 1, c: "", d: null, e: ["x"] }), { a: "x", c: "" });
  assert.deepEqual([textMapOf(["x"]), textMapOf(null)], [{}, {}]);
});
