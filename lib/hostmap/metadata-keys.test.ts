import assert from "node:assert/strict";
import { test } from "node:test";
import * as keys from "./metadata-keys.ts";

const { PREFIX, USER_KEYS, WRITTEN_KEYS } = keys;
const ALL = Object.entries(keys).flatMap(([name, value]) => (name.endsWith("_KEY") ? [String(value)] : []));

test("every key has the prefix, is a valid label key, and is unique", () => {
  // https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
  for (const key of ALL) assert.match(key, new RegExp(`^${PREFIX.replaceAll(".", "\\.")}[a-z][a-zA-Z-]{0,61}[a-z]$`));
  assert.equal(new Set(ALL).size, ALL.length);
  assert.ok(ALL.length >= 11);
});

test("each key is in the table of keys, and either users or Switchback write it, not both", () => {
  for (const key of [...Object.keys(USER_KEYS), ...WRITTEN_KEYS]) assert.ok(ALL.includes(key), key);
  for (const key of WRITTEN_KEYS) assert.ok(!Object.hasOwn(USER_KEYS, key), key);
});
