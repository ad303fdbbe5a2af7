import assert from "node:assert/strict";
import { test } from "node:test";
import { goodNames } from "#test/arbitraries.ts";
import { fc } from "#test/property.ts";
import { compareNames } from "./hostnames.ts";
import { HostsParser, parseHosts, renderHosts } from "./hosts-text.ts";
import type { HostLine } from "./types.ts";

const V4 = "198.51.100.9";
const V6 = "2001:db8::9";

function parsed(text: string, known: readonly HostLine[] = []): HostLine[] {
  const parser = new HostsParser(new Map(known.map((line) => [line.name, line])));
  parser.readAll(text);
  return [...parser.lines.values()];
}

test("the holder of a name is the comment of its lines, and is read from there; lines keep their order", () => {
  const lines: readonly HostLine[] = [
    { name: "z.example.com", addresses: [V4], holder: "shop" },
    { name: "*.example.com", addresses: [V4] },
    { name: "**.example.com", addresses: [V4, V6], holder: "edge" },
    { name: "a.example.com", addresses: [V4, V6], holder: "shop" },
  ];
  const text = renderHosts(lines);
  assert.equal(
    text,
    [
      `${V4} z.example.com # shop`,
      `#wildcard ${V4} *.example.com`,
      `#wildcard ${V4} **.example.com # edge`,
      `#wildcard ${V6} **.example.com # edge`,
      `${V4} a.example.com # shop`,
      `${V6} a.example.com # shop`,
      "",
    ].join("\n"),
  );
  assert.deepEqual(
    parsed(text),
    lines.map(({ holder, ...line }) => ({ ...line, holder })),
  );
});

test("lines that an earlier text had are used again, others are read", () => {
  const all = ["a", "b", "c", "d", "e"].map((name) => ({
    name: `${name}.example.com`,
    addresses: [V4],
    holder: "shop",
  }));
  const before = parsed(renderHosts(all).replace(`${V4} b`, `${V6} b.example.com # shop\n$&`));
  const text = renderHosts(before);
  const without = text.replace(`${V4} a.example.com # shop\n`, "");
  const changed = without.replace(`c.example.com # shop`, `c.example.com # edge`).replace(`${V4} d.`, `${V6} d.`);
  const [b, c, d, e] = parsed(changed, before);
  assert.deepEqual([b?.addresses, c?.holder, d?.addresses, e?.name], [[V6, V4], "edge", [V6], "e.example.com"]);
  assert.equal(b, before[1]);
  assert.equal(e, before[4]);
});

test("a wildcard without its mark is none, also if an earlier text had it", () => {
  const known = [{ name: "*.a.example.com", addresses: [V4], holder: "shop" }];
  assert.deepEqual(parsed(`${V4} *.a.example.com # shop`, known), []);
});

test("the names of an earlier text that are missing are skipped at once, and those after them are not searched", () => {
  const known = parsed(
    renderHosts(["a", "b", "c", "d"].map((name) => ({ name: `${name}.example.com`, addresses: [V4] }))),
  );
  const parser = new HostsParser(new Map(known.map((line) => [line.name, line])));
  const text = renderHosts(known.slice(2));
  const end = text.indexOf("\n") + 1;
  assert.deepEqual([parser.read(text, 0), parser.read(text, 0), parser.read(text, end)], [0, end, text.length]);
});

const rawLines = fc.array(
  fc
    .tuple(
      fc.constantFrom("", "#wildcard "),
      fc.constantFrom(V4, V6, "198.51.100.1"),
      fc.constantFrom("a.b", "a.b.c", "*.a.b", "**.a.b", "A.B", "c"),
      fc.constantFrom("", " # shop", " # edge", " d"),
    )
    .map((parts) => `${parts.slice(0, 2).join("")} ${parts.slice(2).join("")}`),
);

test("property: an earlier text changes nothing of what is read", () => {
  fc.assert(
    fc.property(rawLines, rawLines, (before, after) => {
      const text = after.join("\n");
      assert.deepEqual(parsed(text, parsed(before.join("\n"))), parsed(text));
    }),
    { numRuns: 2_000 },
  );
});

for (const line of [
  `${V4} **.example.com`,
  `#wildcard ${V4} ***.example.com`,
  `#wildcard ${V4} **.com`,
  `#wildcard ${V4} **`,
]) {
  test(`no wildcard at any depth: ${line}`, () => assert.equal(parseHosts(`${line}\n`).size, 0));
}

test("a comment that is no namespace names no holder", () => {
  for (const comment of ["#", "#shop", "# Shop", "# shop ", "# -shop", `# ${"a".repeat(64)}`, "# a b", "# shop.x"]) {
    assert.deepEqual(parsed(`${V4} a.example.com ${comment}`)[0]?.holder, undefined, comment);
  }
});

const FILES: ReadonlyArray<readonly [what: string, text: string, expected: Record<string, string[]>]> = [
  [
    "a user's file",
    `# mine\n\n${V4}\tA.example.com b.example.com # why\n`,
    { "a.example.com": [V4], "b.example.com": [V4] },
  ],
  ["Windows line endings", `${V4} a.example.com\r\n${V6} a.example.com\r\n`, { "a.example.com": [V4, V6] }],
  ["a duplicate line", `${V4} a.example.com\n${V4} a.example.com\n`, { "a.example.com": [V4] }],
  ["a wildcard", `#wildcard ${V4} *.example.com\n`, { "*.example.com": [V4] }],
  ["a wildcard without the prefix, and a name with it", `${V4} *.example.com\n#wildcard ${V4} a.example.com\n`, {}],
  ["the usual names of a host", `127.0.0.1 localhost\n::1 localhost ip6-localhost\n${V4} host\n`, {}],
  ["hostile names", `${V4} a_b.example.com 1.2.3.4 * *.*.x a.example.com. \u212aube.example.com\n`, {}],
  ["an address without names, names without an address", `${V4}\na.example.com b.example.com\n`, {}],
  ["no text", "", {}],
];
for (const [what, text, expected] of FILES) {
  test(`read: ${what}`, () => assert.deepEqual(Object.fromEntries(parseHosts(text)), expected));
}

test("an invalid address is skipped, and so is one that the API server rejects", () => {
  const bad = [
    "1.2.3",
    "1.2.3.4.5",
    "256.1.1.1",
    "01.2.3.4",
    "0x7f.0.0.1",
    "1.2.3.4/32",
    "fe80::1%eth0",
    ":::",
    "1::2::3",
    "[::1]",
    "a",
    "::g",
    "1.2.3.4:80",
  ];
  for (const address of bad) assert.equal(parseHosts(`${address} a.example.com`).size, 0, address);
  const good = [V4, "0.0.0.0", "255.255.255.255", V6, "::", "::ffff:1.2.3.4", "2001:DB8::1"];
  for (const address of good) assert.equal(parseHosts(`${address} a.example.com`).size, 1, address);
});

const lines = fc
  .uniqueArray(
    fc.record({ name: goodNames, wildcard: fc.boolean(), addresses: fc.constantFrom([V4], [V6], [V4, V6]) }),
    {
      selector: ({ name, wildcard }) => `${wildcard} ${name}`,
    },
  )
  .map((all) =>
    all
      .map(({ name, wildcard, addresses }) => ({ name: wildcard ? `*.${name}` : name, addresses }))
      .sort((a, b) => compareNames(a.name, b.name)),
  );

test("property: rendered lines are parsed back unchanged", () => {
  fc.assert(
    fc.property(lines, (all) => {
      const read = parseHosts(renderHosts(all));
      assert.deepEqual(
        [...read],
        all.map(({ name, addresses }) => [name, addresses]),
      );
    }),
  );
});

test("a name gets the first 16 addresses of a text", () => {
  const addresses = Array.from({ length: 40 }, (_, at) => `198.51.100.${at}`);
  const text = addresses.map((address) => `${address} a.example.com`).join("\n");
  assert.deepEqual(parseHosts(text).get("a.example.com"), addresses.slice(0, 16));
});

test("property: the parser returns no name or address that is not in the text", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom("a", ".", "1", "2", " ", "\n", "#", ":", "*", "x", "\t", "-") }),
      (text) => {
        for (const [name, addresses] of parseHosts(text)) {
          for (const address of addresses) assert.ok(text.includes(name) && text.includes(address));
        }
      },
    ),
    { numRuns: 1_000 },
  );
});
