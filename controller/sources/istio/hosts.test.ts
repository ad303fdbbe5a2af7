import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "#test/property.ts";
import { ServerHosts, serverHost, virtualHosts } from "./hosts.ts";

/** The names that hosts of a Gateway in `infra` and of a VirtualService in `shop` have in common. */
function common(gateway: readonly string[], hosts: readonly string[], namespace = "shop"): string[] {
  const servers = new ServerHosts(gateway.map((text) => serverHost(text, "infra")));
  return [...new Set([...servers.common(virtualHosts(hosts), namespace)].map(([, name]) => name))].sort();
}

// Source: istio/istio, pkg/config/host/name_test.go, TestNameMatches.
const MATCHES: ReadonlyArray<readonly [a: string, b: string, matches: boolean]> = [
  ["a.facebook.com", "*.facebook.COM", false],
  ["foo.com", "foo.com", true],
  ["bar.com", "foo.com", false],
  ["foo.com", "bar.com", false],
  ["bar.foo.com", "foo.com", false],
  ["foo.com", "bar.foo.com", false],
  ["*.com", "foo.com", true],
  ["*.com", "bar.com", true],
  ["*.foo.com", "bar.foo.com", true],
  ["*", "foo.com", true],
  ["*", "*.com", true],
  ["*", "com", true],
  ["*", "*", true],
  ["*.com", "*.foo.com", true],
  ["foo.com", "*.foo.com", false],
  ["*.foo.com", "foo.com", false],
  ["*.foo.bar.baz", "baz", false],
  ["baz", "*.foo.bar.baz", false],
  ["*.foo.bar.baz", "*.baz", true],
  ["foo.bar.baz", "*.baz", true],
];

test("hosts match as in Istio's own test table, in both directions", () => {
  for (const [a, b, matches] of MATCHES) {
    assert.equal(common([a], [b]).length > 0, matches, `${a} ${b}`);
    assert.equal(common([b], [a]).length > 0, matches, `${b} ${a}`);
  }
});

// Source: istio/istio, pkg/config/host/names_test.go, TestNamesIntersection.
const INTERSECTIONS: ReadonlyArray<readonly [a: string[], b: string[], names: string[]]> = [
  [["foo,com"], ["bar.com"], []],
  [["foo.com", "bar.com"], ["bar.com"], ["bar.com"]],
  [["foo.com", "bar.com"], ["*.com"], ["bar.com", "foo.com"]],
  [["*.com"], ["foo.com", "bar.com"], ["bar.com", "foo.com"]],
  [
    ["foo.com", "*.net"],
    ["*.com", "bar.net"],
    ["bar.net", "foo.com"],
  ],
  [["foo.com", "*.net"], ["*.bar.net"], ["*.bar.net"]],
  [["foo.com", "bar.net"], ["*"], ["bar.net", "foo.com"]],
  [["foo.com"], [], []],
  [[], ["bar.com"], []],
  [["*", "foo.com"], ["foo.com"], ["foo.com"]],
  [["*"], ["foo.com"], ["foo.com"]],
  [["foo.com"], ["Foo.com"], []],
];

test("the common names are those of Istio's intersection", () => {
  for (const [a, b, names] of INTERSECTIONS) assert.deepEqual(common(a, b), names, `${a} ${b}`);
});

test("the namespace before a slash limits which VirtualServices may use a host", () => {
  const CASES: ReadonlyArray<readonly [server: string, inShop: boolean, inInfra: boolean]> = [
    ["a.com", true, true],
    ["*/a.com", true, true],
    ["*/*", true, true],
    ["./a.com", false, true],
    ["shop/a.com", true, false],
    ["shop/*", true, false],
    ["shop/*.com", true, false],
    ["~/a.com", false, false],
    ["other/a.com", false, false],
    ["shop/", false, false],
  ];
  for (const [server, inShop, inInfra] of CASES) {
    const found = ["shop", "infra"].map((namespace) => common([server], ["a.com"], namespace).length > 0);
    assert.deepEqual(found, [inShop, inInfra], server);
  }
  assert.deepEqual(common(["other/a.com", "shop/a.com"], ["a.com"]), ["a.com"]);
});

/** Copied from istio/istio, pkg/config/host/name.go, SubsetOf. */
function isSubset(n: string, o: string): boolean {
  if (n.startsWith("*")) {
    return o.startsWith("*") && n.length >= o.length && n.slice(1).endsWith(o.slice(1));
  }
  return o.startsWith("*") ? n.endsWith(o.slice(1)) : n === o;
}

test("property: the result is the same as that of comparing every pair", () => {
  const label = fc.constantFrom("a", "b", "c");
  const name = fc.array(label, { minLength: 1, maxLength: 4 }).map((labels) => labels.join("."));
  const host = fc.oneof(
    name,
    name.map((text) => `*.${text}`),
    fc.constant("*"),
  );
  const hosts = fc.array(host, { maxLength: 8 });
  const property = fc.property(hosts, hosts, (gateway, service) => {
    const pairs = gateway.flatMap((one) => service.map((other) => [one, other] as const));
    const expected = pairs.flatMap(([one, other]) => {
      if (isSubset(other, one)) return [other];
      return isSubset(one, other) ? [one] : [];
    });
    assert.deepEqual(common(gateway, service), [...new Set(expected)].sort());
  });
  fc.assert(property);
});

test("names that are too long or too deep to be mapped match nothing", () => {
  assert.deepEqual(common(["*.com"], [`${"a.".repeat(200_000)}com`, `${"a.".repeat(40)}com`]), []);
});
