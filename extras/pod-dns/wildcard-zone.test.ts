import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "#test/property.ts";
import { chooseWildcards, wildcardRecords, wildcardZone } from "./wildcard-zone.ts";

const RELAY = "198.51.100.9";

/** Names with few labels, so that some wildcards lie above others. */
const names = fc
  .array(fc.constantFrom("a", "b", "c"), { minLength: 1, maxLength: 5 })
  .map((labels) => `${labels.join(".")}.test`);
const wildcards = fc
  .uniqueArray(names, { maxLength: 8 })
  .map((apexes) => new Map(apexes.map((apex, index) => [apex, [`198.51.100.${(index % 3) + 1}`]])));

/**
 * The answer of a server with this zone (RFC 4592, 3.3.1): the name itself, or the wildcard at the closest name that
 * exists.
 */
function lookUp(zone: ReadonlyMap<string, string>, name: string): string | undefined {
  const exists = (what: string) => zone.has(what) || [...zone.keys()].some((other) => other.endsWith(`.${what}`));
  if (exists(name)) return zone.get(name);
  let above = name;
  while (above.includes(".")) {
    above = above.slice(above.indexOf(".") + 1);
    if (exists(above)) return zone.get(`*.${above}`);
  }
  return undefined;
}

/** The answer by Gateway API: the longest wildcard that has the name below it. */
function expected(all: ReadonlyMap<string, readonly string[]>, name: string): string | undefined {
  const above = [...all.keys()].filter((apex) => name.endsWith(`.${apex}`)).sort((a, b) => b.length - a.length);
  return all.get(above[0] ?? "")?.[0];
}

test("by the rules of DNS, the records give each name the addresses of the longest wildcard above it", () => {
  fc.assert(
    fc.property(wildcards, fc.array(names, { minLength: 1, maxLength: 20 }), (all, asked) => {
      const zone = new Map(
        wildcardRecords(chooseWildcards(all).kept, 5)
          .split("\n")
          .filter((line) => line !== "")
          .map((line) => [line.slice(0, line.indexOf(". ")), line.slice(line.lastIndexOf(" ") + 1)]),
      );
      for (const name of [...asked, ...all.keys()]) assert.equal(lookUp(zone, name), expected(all, name), name);
    }),
  );
});

test("records have both families, in an order that does not depend on the map's order", () => {
  const one = new Map([
    ["b.test", ["2001:db8::9", RELAY]],
    ["a.test", [RELAY]],
  ]);
  const text = `*.a.test. 5 IN A ${RELAY}\n*.b.test. 5 IN A ${RELAY}\n*.b.test. 5 IN AAAA 2001:db8::9\n`;
  assert.equal(wildcardRecords(one, 5), text);
  assert.equal(wildcardRecords(new Map([...one].reverse()), 5), text);
  assert.equal(wildcardZone(text, 7, 5), `. 5 IN SOA switchback.invalid. nobody.invalid. 7 3600 3600 3600 5\n${text}`);
});

test("a wildcard with the same addresses as the one above it needs no records", () => {
  const all = new Map([
    ["c.b.a.test", [RELAY]],
    ["a.test", [RELAY]],
    ["other.test", [RELAY]],
  ]);
  const { kept, leftOut } = chooseWildcards(all);
  assert.deepEqual([[...kept.keys()].sort(), leftOut.count], [["a.test", "other.test"], 0]);
});

test("wildcards of a hundred labels take a limited number of records; ordinary wildcards keep their records", () => {
  const deep = (index: number) => `${"a.".repeat(100)}h${index}.test`;
  const hostile = Array.from({ length: 500 }, (_, index) => [deep(index), ["198.51.100.2"]] as const);
  const all = new Map<string, readonly string[]>([...hostile, ["test", [RELAY]], ["e.d.c.b.test", ["198.51.100.3"]]]);
  const { kept, leftOut } = chooseWildcards(all);
  assert.deepEqual([[...kept.keys()].sort(), leftOut.count], [["e.d.c.b.test", "test"], 500]);
  // Wildcards eight labels below each other, with alternating addresses: each takes the maximum number of records.
  const chain = Array.from(
    { length: 12 },
    (_, at) => [`${"a.".repeat(8 * at)}x.test`, [`198.51.100.${at % 2}`]] as const,
  );
  const chained = chooseWildcards(new Map(chain));
  assert.equal(chained.kept.size, 12);
  assert.ok(wildcardRecords(chained.kept, 5).split("\n").length <= 12 * 17);
});

test("if there is no room for all wildcards, those that were published first are kept", () => {
  const label = "x".repeat(60);
  const above = (at: number) => `${label}.${label}.${label}.n${at}.test`;
  const hostile = (at: number) => `${"a.".repeat(8)}${above(at)}`;
  const pairs = Array.from({ length: 2_500 }, (_, at) => [above(at), hostile(at)]).flat();
  const names = ["first.example.com", ...pairs, "late.example.com"];
  const wildcards = new Map(names.map((apex, at) => [apex, [`198.51.100.${at % 2}`]]));
  const { kept, leftOut } = chooseWildcards(wildcards);
  assert.ok(kept.has("first.example.com") && kept.has(hostile(0)) && kept.has(hostile(100)));
  assert.ok(!kept.has(hostile(2_499)), "those that came last are left out");
  assert.deepEqual([kept.size + leftOut.count, leftOut.reason?.code], [names.length, "dns-no-room"]);
  const bytes = Buffer.byteLength(wildcardRecords(kept, 5));
  assert.ok(bytes <= 2 * 1024 * 1024 && bytes > 1_000_000, String(bytes));
});
