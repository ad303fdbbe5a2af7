import assert from "node:assert/strict";
import { test } from "node:test";
import { packLines } from "#hostmap/pack.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { createInjectionCache } from "./injection-cache.ts";
import { decideInjection } from "./injection-decision.ts";

// Field case 20: 40 names at one address, and a pod that runs on Windows.

const V4 = "198.51.100.9";
const names = Array.from({ length: 40 }, (_, index) => `host-${String(index).padStart(2, "0")}.example.com`);
const cache = createInjectionCache(publishedMapOf("r1", new Map(names.map((name) => [name, [V4]]))), 500);

function aliasesOf(spec: object) {
  const metadata = { name: "win", labels: { "switchback.dev/inject": "enabled" } };
  const object = { metadata, spec: { ...spec, containers: [{ name: "c", image: "example.com/c" }] } };
  const request = { uid: "u", kind: { group: "", kind: "Pod" }, operation: "CREATE", namespace: "shop", object };
  const decision = decideInjection(request, "pod", cache);
  assert.ok(decision.inject);
  return decision.injection.managed.aliases;
}

const ON_WINDOWS = [{ os: { name: "windows" } }, { nodeSelector: { "kubernetes.io/os": "windows" } }];
for (const spec of ON_WINDOWS) {
  test(`a pod with ${JSON.stringify(spec)} gets every name, at most nine on a line`, () => {
    const aliases = aliasesOf(spec);
    assert.deepEqual(
      aliases.map(({ ip, hostnames }) => [ip, hostnames.length]),
      [9, 9, 9, 9, 4].map((count) => [V4, count]),
    );
    assert.deepEqual(
      aliases.flatMap(({ hostnames }) => hostnames),
      names,
    );
  });
}

test("other pods get unchanged lines, even after a Windows pod with the same names", () => {
  const expected = packLines(names.map((name) => [name, [V4]]));
  for (const spec of [{}, { os: { name: "linux" } }, { nodeSelector: { "kubernetes.io/os": "linux" } }]) {
    assert.deepEqual(aliasesOf(spec), expected);
  }
});
