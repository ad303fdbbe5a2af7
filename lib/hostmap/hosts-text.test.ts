import assert from "node:assert/strict";
import { test } from "node:test";
import { goodNames } from "#test/arbitraries.ts";
import { fc } from "#test/property.ts";
import { compareNames } from "./hostnames.ts";
import { parseHosts, renderHosts } from "./hosts-text.ts";

const V4 = "198.51.100.9";
const V6 = "2001:db8::9";

test("there is one line per address and name, and wildcards are comments", () => {
  const text = renderHosts([
    { name: "*.example.com", addresses: [V4, V6] },
    { name: "a.example.com", addresses: [V4, V6] },
  ]);
  assert.equal(
    text,
    [
      `#wildcard ${V4} *.example.com`,
      `#wildcard ${V6} *.example.com`,
      `${V4} a.example.com`,
      `${V6} a.example.com`,
      "",
    ].join("\n"),
  );
});

test("the order and the holder of a name are a comment at the end of its first line, and are read from there", () => {
  const text = renderHosts([
    { name: "*.example.com", addresses: [V4], order: 7 },
    { name: "a.example.com", addresses: [V4, V6], order: 12, holder: "shop" },
    { name: "b.example.com", addresses: [V4], order: 0 },
  ]);
  assert.equal(
    text,
    [
      `#wildcard ${V4} *.example.com #7`,
      `${V4} a.example.com #12 shop`,
      `${V6} a.example.com`,
      `${V4} b.example.com`,
      "",
    ].join("\n"),
  );
  const orders = new Map<string, number>();
  const holders = new Map<string, string>();
  const names = [...parseHosts(text, orders, holders).keys()];
  assert.deepEqual(names, ["*.example.com", "a.example.com", "b.example.com"]);
  assert.deepEqual([...holders], [["a.example.com", "shop"]]);
  assert.deepEqual(
    [...orders],
    [
      ["*.example.com", 7],
      ["a.example.com", 12],
    ],
  );
});

test("a wildcard at any depth has its own comment", () => {
  const text = renderHosts([
    { name: "*.example.com", addresses: [V4], order: 7 },
    { name: "**.example.com", addresses: [V4, V6], order: 8 },
  ]);
  const lines = [
    `#wildcard ${V4} *.example.com #7`,
    `#wildcard ${V4} **.example.com #8`,
    `#wildcard ${V6} **.example.com`,
  ];
  assert.equal(text, `${lines.join("\n")}\n`);
  const orders = new Map<string, number>();
  assert.deepEqual(
    [...parseHosts(text, orders)],
    [
      ["*.example.com", [V4]],
      ["**.example.com", [V4, V6]],
    ],
  );
  assert.equal(orders.get("**.example.com"), 8);
});

for (const line of [
  `${V4} **.example.com`,
  `#wildcard ${V4} ***.example.com`,
  `#wildcard ${V4} **.com`,
  `#wildcard ${V4} **`,
]) {
  test(`no wildcard at any depth: ${line}`, () => assert.equal(parseHosts(`${line}\n`).size, 0));
}

test("an invalid order is not read", () => {
  for (const comment of ["#", "# 5", "#0", "#05", "#-1", "#1e3", "#1234567890123456", "#5 X", "#5 a b", "#5#6", "5"]) {
    const orders = new Map<string, number>();
    assert.equal(parseHosts(`${V4} a.example.com ${comment}\n`, orders).has("a.example.com"), true, comment);
    assert.equal(orders.size, 0, comment);
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

test("a line of a shard has one name; the rest of the line is skipped, however long it is", () => {
  const text = `192.0.2.1 a.example.com b.example.com\n\n192.0.2.2 a.example.com ${"1 ".repeat(9)}#7\n:: a.b\n`;
  const orders = new Map<string, number>();
  assert.deepEqual(Object.fromEntries(parseHosts(text, orders)), {
    "a.example.com": ["192.0.2.1", "192.0.2.2"],
    "a.b": ["::"],
  });
  assert.deepEqual([...orders], [["a.example.com", 7]]);
});

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
