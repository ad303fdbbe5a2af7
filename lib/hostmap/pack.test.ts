import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "#test/property.ts";
import {
  isWindows,
  lineBytes,
  longLineReason,
  MAX_LINE_BYTES,
  MAX_WINDOWS_NAMES,
  type MappedName,
  packLines,
  packOnePerAddress,
  packWindowsLines,
} from "./pack.ts";
import type { HostAlias } from "./types.ts";

const V4 = "198.51.100.9";
const V6 = "2001:db8::9";

/** Names of 4 to 253 bytes. Packing does not depend on their content. */
const name = fc
  .tuple(fc.integer({ min: 0, max: 1_000_000 }), fc.integer({ min: 4, max: 253 }))
  .map(([seed, length]) => `${seed}.`.padEnd(length, "x").slice(-253));
const addresses = fc.constantFrom<string[][]>([V4], [V6], [V4, V6], ["198.51.100.10"], []);
const entries = fc.uniqueArray(fc.tuple(name, addresses), { selector: ([key]) => key, maxLength: 300 });

/** The lines that the kubelet writes (pkg/kubelet/kubelet_pods.go, hostsEntriesFromHostAliases). */
function kubeletLines(aliases: readonly HostAlias[]): string[] {
  return aliases.map(({ ip, hostnames }) => `${ip}\t${hostnames.join("\t")}\n`);
}

function pairs(aliases: readonly HostAlias[]): string[] {
  return aliases.flatMap(({ ip, hostnames }) => hostnames.map((host) => `${ip} ${host}`)).sort();
}

function expectedPairs(list: readonly MappedName[]): string[] {
  return list.flatMap(([host, ips]) => ips.map((ip) => `${ip} ${host}`)).sort();
}

for (const pack of [packLines, packWindowsLines, packOnePerAddress]) {
  test(`${pack.name} neither loses nor adds a name, and has an entry for each of two addresses`, () => {
    fc.assert(fc.property(entries, (list) => assert.deepEqual(pairs(pack(list)), expectedPairs(list))));
  });

  test(`${pack.name} keeps the order of names within an address`, () => {
    fc.assert(
      fc.property(entries, (list) => {
        const packed = pack(list)
          .filter(({ ip }) => ip === V4)
          .flatMap(({ hostnames }) => hostnames);
        assert.deepEqual(
          packed,
          list.filter(([, ips]) => ips.includes(V4)).map(([host]) => host),
        );
      }),
    );
  });
}

for (const pack of [packLines, packWindowsLines]) {
  test(`no line of ${pack.name}, as the kubelet writes it, is over the limit, and none is empty`, () => {
    fc.assert(
      fc.property(entries, (list) => {
        const aliases = pack(list);
        for (const line of kubeletLines(aliases)) assert.ok(Buffer.byteLength(line) <= MAX_LINE_BYTES, line);
        assert.ok(aliases.every(({ hostnames }) => hostnames.length > 0));
      }),
    );
  });
}

test("a line of a Windows pod has at most nine names, and a full line is followed by another", () => {
  fc.assert(
    fc.property(entries, (list) => {
      assert.ok(packWindowsLines(list).every(({ hostnames }) => hostnames.length <= MAX_WINDOWS_NAMES));
    }),
  );
  const list = Array.from({ length: 20 }, (_, index): MappedName => [`h${index}`, [V4]]);
  assert.deepEqual(
    packWindowsLines(list).map(({ hostnames }) => hostnames.length),
    [9, 9, 2],
  );
  assert.equal(packLines(list).length, 1, "no other pod's lines change");
});

for (const [spec, expected] of [
  [{ os: { name: "windows" } }, true],
  [{ nodeSelector: { "kubernetes.io/os": "windows" } }, true],
  [{ os: { name: "linux" }, nodeSelector: { "kubernetes.io/os": "linux" } }, false],
  [{}, false],
  [{ os: null, nodeSelector: "windows" }, false],
  [undefined, false],
] as const) {
  test(`a pod with ${JSON.stringify(spec)} ${expected ? "runs" : "does not run"} on Windows`, () => {
    assert.equal(isWindows(spec), expected);
  });
}

test("lines are filled: two consecutive lines of one address would not fit on one line", () => {
  const list = Array.from({ length: 500 }, (_, index): MappedName => [`host-${index}.shop.example.com`, [V4]]);
  const aliases = packLines(list);
  assert.ok(aliases.length > 1);
  for (const [index, alias] of aliases.slice(1).entries()) {
    const before = aliases[index];
    assert.ok(before !== undefined && lineBytes(before) + 1 + (alias.hostnames[0]?.length ?? 0) > MAX_LINE_BYTES);
  }
});

test("lineBytes is the length of the line that the kubelet writes", () => {
  const alias = { ip: V6, hostnames: ["a.example.com", "b.example.com"] };
  assert.equal(lineBytes(alias), kubeletLines([alias])[0]?.length);
});

test("a line may have exactly 480 bytes, and one more byte splits it", () => {
  const rest = MAX_LINE_BYTES - lineBytes({ ip: V4, hostnames: ["a".repeat(200)] }) - 1;
  const fits: MappedName[] = [
    ["a".repeat(200), [V4]],
    ["b".repeat(rest), [V4]],
  ];
  assert.equal(packLines(fits).length, 1);
  assert.equal(
    packLines([
      ["a".repeat(200), [V4]],
      ["b".repeat(rest + 1), [V4]],
    ]).length,
    2,
  );
});

test("one alias per address is built, with a reason that names the annotation if its line is too long", () => {
  const list = Array.from({ length: 30 }, (_, index): MappedName => [`host-${index}.shop.example.com`, [V4, V6]]);
  const aliases = packOnePerAddress(list);
  assert.deepEqual(
    aliases.map(({ ip }) => ip),
    [V4, V6],
  );
  const reason = longLineReason(aliases);
  assert.equal(reason?.code, "line-too-long");
  assert.match(reason?.text ?? "", /switchback\.dev\/hosts/);
  const ten = packOnePerAddress(list.slice(0, 10));
  assert.equal(longLineReason(ten), undefined);
  assert.match(longLineReason(ten, true)?.text ?? "", /10 names, over 9: Windows .*switchback\.dev\/hosts/);
  assert.equal(longLineReason(packOnePerAddress(list.slice(0, 9)), true), undefined);
});
