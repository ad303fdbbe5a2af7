import assert from "node:assert/strict";
import { test } from "node:test";
import { parseHosts } from "#hostmap/hosts-text.ts";
import { goodNames } from "#test/arbitraries.ts";
import { fc } from "#test/property.ts";
import { DNS_HEALTH_NAME, revisionHealthName } from "./health-name.ts";
import { healthLine, hostsLines } from "./hosts-file.ts";

test("the first line has the health names of all resolvers and of this rollout", () => {
  assert.equal(healthLine("4f2a"), `127.0.0.1 ${DNS_HEALTH_NAME} ${revisionHealthName("4f2a")}\n`);
});

test("names and wildcards of one label have lines; a wildcard at any depth has none", () => {
  const entries = new Map([
    ["shop.test", ["198.51.100.9", "2001:db8::9"]],
    ["*.wild.test", ["198.51.100.9"]],
    ["**.deep.test", ["198.51.100.9"]],
  ]);
  const lines = "198.51.100.9 shop.test\n2001:db8::9 shop.test\n198.51.100.9 *.wild.test\n";
  assert.equal(hostsLines(entries), lines);
});

test("the map cannot set the health names", () => {
  const names = [DNS_HEALTH_NAME, revisionHealthName("next")];
  assert.equal(hostsLines(new Map(names.map((name) => [name, ["127.0.0.1"]]))), "");
});

test("the lines have the map's names, each with its addresses", () => {
  const addresses = fc.constantFrom(["198.51.100.9"], ["198.51.100.9", "2001:db8::9"], ["2001:db8::1"]);
  fc.assert(
    fc.property(fc.array(fc.tuple(goodNames, addresses)), (entries) => {
      const names = new Map(entries);
      assert.deepEqual(parseHosts(hostsLines(names)), names);
    }),
  );
});
