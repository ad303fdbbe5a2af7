import assert from "node:assert/strict";
import { test } from "node:test";
import { buildManagedAliases } from "#hostmap/inject.ts";
import { createSelector, type SelectedHosts } from "#hostmap/pod-selection.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { createInjectionCache } from "./injection-cache.ts";

const names = Array.from({ length: 1_000 }, (_, index) => `host-${index}.team-${index % 7}.example.com`);
const map = publishedMapOf("r1", new Map(names.map((name) => [name, ["198.51.100.9"]])));

/** Removes the functions, which are never equal. */
function plain({ has: _has, addressesOf: _addressesOf, byAddress: _byAddress, ...rest }: SelectedHosts): object {
  return rest;
}

test("cached results equal computed ones", () => {
  const loaded = createInjectionCache(map, 500);
  const selectHosts = createSelector(map, 500);
  for (const annotation of [
    undefined,
    "*",
    "*.team-3.example.com",
    "junk_",
    "host-1.team-1.example.com",
    "*.team-3.example.com",
  ]) {
    const selected = loaded.select(annotation);
    assert.deepEqual(plain(selected), plain(selectHosts(annotation)));
    for (const userNames of [[], selected.names.slice(0, 1), selected.names]) {
      assert.deepEqual(loaded.build(selected, userNames), buildManagedAliases(selected, userNames));
    }
  }
});

test("equal arguments return the same object, different ones do not", () => {
  const loaded = createInjectionCache(map, 500);
  assert.equal(loaded.select("*.team-3.example.com"), loaded.select("*.team-3.example.com"));
  for (const annotation of ["*", undefined])
    assert.equal(loaded.build(loaded.select(annotation), []), loaded.build(loaded.select(annotation), []));
  assert.notEqual(loaded.build(loaded.select("*"), []), loaded.build(loaded.select("*"), [names[0] ?? ""]));
  assert.notEqual(loaded.build(loaded.select("*"), []), loaded.build(loaded.select("*.com"), []));
});

test("memory stays limited for any number of annotations, and of sets of user-mapped names", () => {
  const loaded = createInjectionCache(map, 500);
  const first = loaded.select("*.team-1.example.com");
  const firstAliases = loaded.build(first, []);
  for (let index = 0; index < 3_000; index += 1) loaded.select(`*, ${"x".repeat(index % 4_000)}`);
  assert.notEqual(loaded.select("*.team-1.example.com"), first);
  for (let index = 0; index < 400; index += 1) loaded.build(loaded.select(undefined), [`${index}`]);
  assert.notEqual(loaded.build(first, []), firstAliases);
});
