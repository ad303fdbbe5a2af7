import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "#test/property.ts";
import { Divider, type DnsRecord, MAX_PARTS, type Part, type PartLimits, recordsOf } from "./external-dns-parts.ts";

const LIMITS: PartLimits = { byAddresses: false, names: 4, bytes: 1_000, bytesOf: ({ name }) => name.length };

function record(index: number, address = "198.51.100.9"): DnsRecord {
  return { name: `name-${index}.example.com`, addresses: [address] };
}

function records(count: number): DnsRecord[] {
  return Array.from({ length: count }, (_, index) => record(index));
}

const placesOf = (parts: readonly Part[]) =>
  new Map(parts.flatMap(({ key, records: all }) => all.map(({ name }) => [name, key] as const)));

test("both kinds of wildcards become one record, and the one that comes first counts", () => {
  const entries = [
    ["**.a.example.com", ["198.51.100.1"]],
    ["*.a.example.com", ["198.51.100.2"]],
    ["b.example.com", ["198.51.100.3", "2001:db8::3"]],
  ] as const;
  assert.deepEqual(recordsOf(entries), [
    { name: "*.a.example.com", addresses: ["198.51.100.1"] },
    { name: "b.example.com", addresses: ["198.51.100.3", "2001:db8::3"] },
  ]);
});

test("property: every record is in one part, or left out because its part is full; parts do not exceed objects", () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.nat(5_000), { maxLength: 300 }), fc.boolean(), (indexes, byAddresses) => {
      const all = indexes.map((index) => record(index, `198.51.100.${index % 5}`));
      const { parts, leftOut } = new Divider({ ...LIMITS, byAddresses, bytes: 60 }).divide(all);
      const placed = parts.flatMap((part) => part.records);
      assert.equal(placed.length + leftOut, all.length);
      assert.equal(new Set(placed.map(({ name }) => name)).size, placed.length);
      assert.ok(parts.length <= MAX_PARTS);
      for (const part of parts) {
        assert.ok(part.records.reduce((sum, { name }) => sum + name.length, 0) <= 60);
        if (byAddresses) assert.equal(new Set(part.records.map(({ addresses }) => addresses.join())).size, 1);
      }
    }),
  );
});

test("names stay in their part while others come and go", () => {
  const divider = new Divider(LIMITS);
  const before = placesOf(divider.divide(records(100)).parts);
  const after = placesOf(divider.divide(records(100).slice(1, 99)).parts);
  for (const [name, key] of after) assert.equal(key, before.get(name), name);
});

test("the number of parts grows with the names, and falls only when there are far fewer", () => {
  const divider = new Divider(LIMITS);
  const count = (names: number) => divider.divide(records(names)).parts[0]?.key.split("/")[1];
  assert.deepEqual([1, 4, 5, 8, 9, 100].map(count), ["1", "1", "2", "2", "4", "32"]);
  assert.deepEqual([40, 33, 32].map(count), ["32", "32", "8"]);
  const later = new Divider(LIMITS);
  later.remember("all/32/3");
  assert.equal(later.divide(records(40)).parts[0]?.key.split("/")[1], "32", "what exists already counts");
  for (const odd of ["", "all", "all/x/1", "all/1e9/1"]) new Divider(LIMITS).remember(odd);
});

test("a full part keeps the names that were published first", () => {
  const limits = { ...LIMITS, names: 1_000, bytes: 60 };
  const { parts, leftOut } = new Divider(limits).divide(records(10));
  assert.deepEqual([parts[0]?.records.map(({ name }) => name), leftOut], [records(3).map(({ name }) => name), 7]);
});

test("groups beyond the maximum number of objects are left out, and counted", () => {
  const all = Array.from({ length: MAX_PARTS + 8 }, (_, index) => record(index, `198.51.${index >> 8}.${index % 256}`));
  const { parts, leftOut } = new Divider({ ...LIMITS, byAddresses: true }).divide(all);
  assert.deepEqual([parts.length, leftOut], [MAX_PARTS, 8]);
});
