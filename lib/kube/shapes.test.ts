import assert from "node:assert/strict";
import { test } from "node:test";
import { readerOf } from "./shapes.ts";

const read = readerOf({
  name: "text",
  kind: "word",
  port: "number",
  hosts: "texts",
  values: "texts or empty",
  labels: "map",
  rules: [{ host: "text" }],
});

for (const [what, value, expected] of [
  ["other fields are left out", { name: "a", other: {} }, { name: "a" }],
  ["an empty text is missing, an empty word is not", { name: "", kind: "" }, { name: undefined, kind: "" }],
  ["a field with a wrong type is missing", { port: "80", hosts: {} }, { port: undefined, hosts: undefined }],
  ["a list keeps its texts", { hosts: ["a", 5, ""], values: ["", 5] }, { hosts: ["a"], values: ["", ""] }],
  ["a map keeps its keys", { labels: { constructor: "x", a: 5 } }, { labels: { constructor: "x", a: "" } }],
  [
    "a list is no map",
    { labels: [], rules: [[], null, { host: "a" }] },
    { labels: undefined, rules: [{}, {}, { host: "a" }] },
  ],
  ["no map", ["a"], {}],
  ["nothing", undefined, {}],
] as const) {
  test(`reads only known fields: ${what}`, () => {
    assert.deepEqual(read(value), expected);
  });
}

test("a map keeps the key __proto__, without which a selector of labels would select everything", () => {
  const { labels = {} } = read(JSON.parse('{ "labels": { "__proto__": "x" } }'));
  assert.deepEqual(Object.entries(labels), [["__proto__", "x"]]);
});

test("a list is read up to 20,000 members", () => {
  const { rules, hosts } = read({ rules: Array(20_001).fill({}), hosts: Array(20_001).fill("a") });
  assert.deepEqual([rules?.length, hosts?.length], [20_000, 20_000]);
});
