import assert from "node:assert/strict";
import { test } from "node:test";
import * as core from "#hostmap/metadata-keys.ts";
import * as own from "./metadata-keys.ts";

test("every key has the prefix, is a valid label key, and differs from all others", () => {
  const keys = Object.values(own);
  for (const key of keys) assert.match(key, /^switchback\.dev\/[a-z][a-zA-Z-]{0,61}[a-z]$/);
  const others = Object.values<unknown>(core).filter((value) => typeof value === "string");
  assert.equal(new Set([...keys, ...others]).size, keys.length + new Set(others).size);
});
