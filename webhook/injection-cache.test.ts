import assert from "node:assert/strict";
import { test } from "node:test";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { createInjectionCache } from "./injection-cache.ts";

const names = Array.from({ length: 1_000 }, (_, index) => `host-${index}.team-${index % 7}.example.com`);
const map = publishedMapOf("r1", new Map(names.map((name) => [name, ["198.51.100.9"]])));

test("equal annotations share a selection", () => {
  const loaded = createInjectionCache(map, 500);
  for (const annotation of ["*.team-3.example.com", "*", undefined]) {
    const selected = loaded.select(annotation);
    assert.equal(loaded.select(annotation), selected);
  }
  assert.notEqual(loaded.select("*"), loaded.select("*.com"));
});

test("tenants cannot fill the memory: 200 selections and no long annotation are kept", () => {
  const loaded = createInjectionCache(map, 500);
  const first = loaded.select("*.team-1.example.com");
  const long = `*, ${"x".repeat(4_100)}`;
  assert.notEqual(loaded.select(long), loaded.select(long));
  for (let index = 0; index < 199; index += 1) loaded.select(`*, ${index}`);
  assert.equal(loaded.select("*.team-1.example.com"), first);
  loaded.select("*, 199");
  assert.notEqual(loaded.select("*.team-1.example.com"), first);
});
