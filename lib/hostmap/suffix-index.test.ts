import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { fc } from "#test/property.ts";
import { createSelector } from "./pod-selection.ts";
import { createSuffixIndex } from "./suffix-index.ts";

const label = fc.constantFrom("a", "b", "aa", "com");
const anyName = fc.array(label, { minLength: 1, maxLength: 5 }).map((labels) => labels.join("."));

test("property: the names below a suffix end with a dot and it, in order, whatever was asked before", () => {
  fc.assert(
    fc.property(fc.array(anyName), fc.array(anyName), (names, suffixes) => {
      const index = createSuffixIndex(names);
      for (const suffix of suffixes) {
        const expected = [...names.keys()].filter((position) => names[position]?.endsWith(`.${suffix}`));
        assert.deepEqual([...index.below(suffix)], expected);
      }
    }),
  );
});

/**
 * Names as deep as DNS allows. With `first: true` they share their suffixes, otherwise all labels but the first
 * differ.
 */
function deepNames(count: number, first: boolean): string[] {
  const deep = Array.from({ length: 115 }, () => "a").join(".");
  return Array.from({ length: count }, (_, at) =>
    first ? `h${at}.${deep}.example.com` : `${deep}.h${at}.example.com`,
  );
}

/** Bytes of a selector's index after these patterns were used. */
function indexBytes(names: readonly string[], patterns: readonly string[]): number {
  const map = publishedMapOf("m", new Map(names.map((name) => [name, ["198.51.100.9"]])));
  assert.equal(map.names.length, names.length);
  const before = held();
  const select = createSelector(map, 500);
  for (const pattern of patterns) select(pattern);
  const bytes = held() - before;
  assert.equal(select("*").total, names.length);
  return bytes;
}

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

function held(): number {
  collect();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

for (const first of [true, false]) {
  test(`names with 118 labels take less than twice their bytes (${first ? "shared" : "own"} suffixes)`, () => {
    const names = deepNames(3_000, first);
    const deepest = Array.from(
      { length: 116 },
      (_, at) =>
        `*.${names[at]
          ?.split(".")
          .slice(-at - 2)
          .join(".")}`,
    );
    const bytes = indexBytes(names, ["*.com", "*.example.com", ...deepest]);
    assert.ok(bytes < 2 * names.join("").length, `${bytes} bytes`);
  });
}

test("no selection takes more than 50 ms, whatever the names and patterns", () => {
  const names = [
    ...deepNames(1_000, true),
    ...deepNames(1_000, false),
    ...Array.from({ length: 8_000 }, (_, at) => `host-${at}.shop${at % 500}.example.com`),
  ];
  const select = createSelector(publishedMapOf("m", new Map(names.map((name) => [name, ["198.51.100.9"]]))), 500);
  const every = (item: (at: number) => string) => Array.from({ length: 500 }, (_, at) => item(at)).join();
  const annotations = [
    "*.example.com",
    "*.com,*.org",
    every((at) => `*.shop${at}.example.com`),
    every((at) => `host-${at}.shop${at}.example.com`),
    every((at) => `*.${"a.".repeat(at % 29)}h${at}.example.com`),
    `*.example.com,${every((at) => `host-${at}.shop${at}.example.com`)}`,
  ];
  for (const annotation of annotations) {
    const before = process.threadCpuUsage();
    select(annotation);
    const { user, system } = process.threadCpuUsage(before);
    assert.ok(user + system < 50_000, `${user + system} µs for ${annotation.slice(0, 60)}`);
  }
});
