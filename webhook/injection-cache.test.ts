import assert from "node:assert/strict";
import { test } from "node:test";
import { buildManagedAliases } from "../hostmap/inject.ts";
import { createSelector, type SelectedHosts } from "../hostmap/select-hosts.ts";
import { publishedMapOf } from "../snapshot/published-map.ts";
import { createInjectionCache } from "./injection-cache.ts";

const names = Array.from({ length: 1_000 }, (_, index) => `host-${index}.team-${index % 7}.example.com`);
const map = publishedMapOf("r1", new Map(names.map((name) => [name, ["198.51.100.9"]])));

/** Without its functions, which are never equal. */
function plain({ has: _has, addressesOf: _addressesOf, byAddress: _byAddress, ...rest }: SelectedHosts): object {
  return rest;
}

test("what is remembered equals what is worked out anew", () => {
  const loaded = createInjectionCache(map, 500);
  const select = createSelector(map, 500);
  for (const annotation of [
    undefined,
    "*",
    "*.team-3.example.com",
    "junk_",
    "host-1.team-1.example.com",
    "*.team-3.example.com",
  ]) {
    const chosen = loaded.choose(annotation);
    assert.deepEqual(plain(chosen), plain(select(annotation)));
    for (const taken of [[], chosen.names.slice(0, 1), chosen.names]) {
      assert.deepEqual(loaded.build(chosen, taken), buildManagedAliases(chosen, taken));
    }
  }
});

test("equal questions give the same objects, different ones do not", () => {
  const loaded = createInjectionCache(map, 500);
  assert.equal(loaded.choose("*.team-3.example.com"), loaded.choose("*.team-3.example.com"));
  assert.equal(loaded.build(loaded.choose("*"), []), loaded.build(loaded.choose("*"), []));
  assert.notEqual(loaded.build(loaded.choose("*"), []), loaded.build(loaded.choose("*"), [names[0] ?? ""]));
  assert.notEqual(loaded.build(loaded.choose("*"), []), loaded.build(loaded.choose("*.com"), []));
});

test("annotations without end do not stay in memory, and neither do a tenant's ways to map names itself", () => {
  const loaded = createInjectionCache(map, 500);
  const first = loaded.choose("*.team-1.example.com");
  const firstBlock = loaded.build(first, []);
  for (let index = 0; index < 3_000; index += 1) loaded.choose(`*, ${"x".repeat(index % 4_000)}`);
  assert.notEqual(loaded.choose("*.team-1.example.com"), first);
  for (let index = 0; index < 400; index += 1) loaded.build(loaded.choose(undefined), [`${index}`]);
  assert.notEqual(loaded.build(first, []), firstBlock);
});
