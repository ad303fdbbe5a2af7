import assert from "node:assert/strict";
import { test } from "node:test";
import { asDnsWildcard, protectNames } from "#hostmap/protected-names.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { toPublisherMap } from "./publisher-map.ts";

const RELAY = "198.51.100.9";
const protect = protectNames("k8s.corp.example", ["eu.compute.internal"]);
const NAMES = [
  "shop.corp.example",
  "*.corp.example",
  "**.corp.example",
  "web.shop.svc.k8s.corp.example",
  "*.eu.compute.internal",
  "**.eu.compute.internal",
];

const MAP = publishedMapOf("r1", new Map(NAMES.toReversed().map((name) => [name, [RELAY]])));

test("names that were published first come first, and protected names are left out", () => {
  const { entries, leftOut } = toPublisherMap(MAP, protect);
  assert.deepEqual(
    entries.map(([name]) => name),
    ["*.eu.compute.internal", "*.corp.example", "shop.corp.example"],
  );
  assert.deepEqual([leftOut?.count, leftOut?.reason?.code], [3, "search-domain"]);
  assert.match(leftOut?.reason?.text ?? "", /^3 names are left out: .*search domain.*"k8s\.corp\.example"/);
});

test("a wildcard of one label is left out, too, if it becomes a DNS record", () => {
  const { entries, leftOut } = toPublisherMap(MAP, (name) => protect(asDnsWildcard(name)));
  assert.deepEqual(
    entries.map(([name]) => name),
    ["shop.corp.example"],
  );
  assert.equal(leftOut?.count, 5);
});
