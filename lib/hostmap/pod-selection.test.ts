import assert from "node:assert/strict";
import { test } from "node:test";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { anyText, fc } from "#test/property.ts";
import { isGlob, parseGlob } from "./hostnames.ts";
import { createSelector, parseHostsAnnotation } from "./pod-selection.ts";

const IP = "198.51.100.9";

function mapOf(names: readonly string[], ip = IP) {
  return publishedMapOf("r1", new Map(names.map((name) => [name, [ip]])));
}

const NAMES = [
  "a.example.com",
  "api.shop.example.com",
  "b.example.com",
  "example.com",
  "shop.example.com",
  "www.example.org",
];
const select = createSelector(mapOf(NAMES), 500);

const CASES: ReadonlyArray<readonly [annotation: string | undefined, expected: readonly string[]]> = [
  [undefined, NAMES],
  ["*", NAMES],
  ["a.example.com", ["a.example.com"]],
  ["A.Example.COM", ["a.example.com"]],
  ["*.example.com", ["a.example.com", "api.shop.example.com", "b.example.com", "shop.example.com"]],
  ["*.shop.example.com", ["api.shop.example.com"]],
  ["*.org, a.example.com", ["a.example.com", "www.example.org"]],
  ["  b.example.com\n\ta.example.com ,, ", ["a.example.com", "b.example.com"]],
  [
    "*.shop.example.com,*.example.com,api.shop.example.com",
    ["a.example.com", "api.shop.example.com", "b.example.com", "shop.example.com"],
  ],
  ["a.example.com,*", NAMES],
  ["", []],
  [" , ", []],
  ["not_a_name", []],
  ["a.*.com", []],
  ["a.example.com, not_a_name", ["a.example.com"]],
  ["absent.example.com", []],
  ["198.51.100.1", []],
];

for (const [annotation, expected] of CASES) {
  test(`${JSON.stringify(annotation)} selects ${expected.length} names`, () => {
    const selected = select(annotation);
    assert.deepEqual(selected.names, expected);
    assert.equal(selected.total, expected.length);
  });
}

test("an invalid item is reported with the accepted forms, and valid items still count", () => {
  const { items, warnings } = parseHostsAnnotation("a.example.com, api_1");
  assert.deepEqual(items, ["a.example.com"]);
  assert.deepEqual(warnings, [
    { code: "item-invalid", text: 'switchback.dev/hosts: accepts names, *.example.com or *; ignored: "api_1"' },
  ]);
});

test("above the cap, the first names are selected, and a warning names the annotation", () => {
  const capped = createSelector(mapOf(NAMES), 2)("*");
  assert.deepEqual(capped.names, NAMES.slice(0, 2));
  assert.equal(capped.total, 6);
  assert.deepEqual(capped.warnings, [
    {
      code: "many-names",
      text: "switchback.dev/hosts: only the first 2 of 6 mapped names are injected; choose fewer",
    },
  ]);
});

test("above the cap, the first published names are selected, in name order, whatever item selects them", () => {
  const map = mapOf(NAMES.toReversed());
  for (const annotation of [undefined, "*", NAMES.join(","), "*.com,*.org", "*.com,www.example.org,*.example.com"]) {
    assert.deepEqual(createSelector(map, 2)(annotation).names, NAMES.slice(-2));
    assert.deepEqual(createSelector(map, 6)(annotation).names, NAMES);
  }
});

test("warnings are few, short and without control characters, whatever the annotation contains", () => {
  fc.assert(
    fc.property(anyText(2_000), (annotation) => {
      const { warnings } = createSelector(mapOf(NAMES), 1)(annotation);
      assert.ok(warnings.length <= 10);
      // biome-ignore lint/suspicious/noControlCharactersInRegex: the warnings must not contain them
      for (const { text } of warnings) assert.match(text, /^[^\u0000-\u001f\u007f-\uffff]{1,120}$/);
    }),
  );
});

const label = fc.constantFrom("a", "b", "example", "com", "org");
const anyName = fc.array(label, { minLength: 2, maxLength: 4 }).map((labels) => labels.join("."));
const anyItem = fc.oneof(
  anyName,
  anyName.map((name) => `*.${name}`),
  fc.constantFrom("*", "*.com", "junk_", "*.*.com"),
);

test("the selection equals the names that the patterns match one by one", () => {
  fc.assert(
    fc.property(fc.uniqueArray(anyName), fc.array(anyItem), (names, items) => {
      const globs = items.map(parseGlob).filter(isGlob);
      const map = mapOf(names);
      assert.deepEqual(
        createSelector(map, 500)(items.join(", ")).names,
        map.hosts
          .map(({ name }) => name)
          .filter((name) => globs.some((glob) => glob.matches(name)))
          .sort(),
      );
    }),
  );
});

test("the revision depends only on the selection, the cap, the names and the addresses", () => {
  const base = select("*.example.com").revision;
  assert.match(base, /^[0-9a-f]{12}$/);
  assert.equal(select(" *.EXAMPLE.com, junk_ ").revision, base);
  assert.equal(createSelector(mapOf([...NAMES, "new.example.org"]), 500)("*.example.com").revision, base);
  assert.equal(select(undefined).revision, select("*").revision);

  assert.notEqual(select("*.example.com, example.org").revision, base);
  assert.notEqual(createSelector(mapOf(NAMES), 499)("*.example.com").revision, base);
  assert.notEqual(createSelector(mapOf([...NAMES, "new.example.com"]), 500)("*.example.com").revision, base);
  assert.notEqual(createSelector(mapOf(NAMES, "198.51.100.10"), 500)("*.example.com").revision, base);
});

const codesOf = (annotation: string) => parseHostsAnnotation(annotation).warnings.map(({ code }) => code);

test("500 items and 16,384 characters are read, but not one more of either", () => {
  const items = (count: number) => Array.from({ length: count }, (_, index) => `h${index}.com`);
  assert.deepEqual([codesOf(items(500).join()), codesOf(items(501).join())], [[], ["items-cut"]]);
  assert.deepEqual(parseHostsAnnotation(items(501).join()).items, items(500).sort());
  const long = (length: number) => `a.com,${" ".repeat(length - 11)}b.com`;
  const read = (length: number) => [parseHostsAnnotation(long(length)).items, codesOf(long(length))];
  assert.deepEqual(read(16_384), [["a.com", "b.com"], []]);
  assert.deepEqual(read(16_385), [["a.com", "b.co"], ["items-cut"]]);
  assert.equal(
    parseHostsAnnotation(long(16_385)).warnings.at(-1)?.text,
    "switchback.dev/hosts: only 500 items and 16384 characters are read; ignored the rest",
  );
});

test("warnings name three items of a kind, and count the others", () => {
  const texts = (...items: string[]) => select(items.join()).warnings.map(({ code, text }) => [code, text.slice(22)]);
  const absent = ["w.com", "x.com", "y.com", "z.com"];
  const named = absent.slice(0, 3).map((name) => ["item-unmatched", `no mapped name matches ${name}`]);
  assert.deepEqual(texts(...absent.slice(0, 3)), named);
  assert.deepEqual(texts(...absent), [...named, ["item-unmatched", "1 more items like that"]]);
  assert.deepEqual(texts("*.nowhere.com", "a.example.com"), [
    ["item-unmatched", "no mapped name matches *.nowhere.com"],
  ]);
  assert.deepEqual(texts("a_b"), [
    ["item-invalid", 'accepts names, *.example.com or *; ignored: "a_b"'],
    ["items-none", "no valid name or pattern: nothing is injected"],
  ]);
});

test("a selection has only its names, their addresses, and the names of each address", () => {
  const both = new Map([
    ["a.example.com", [IP, "2001:db8::9"]],
    ["b.example.com", [IP]],
    ["c.example.org", ["198.51.100.8"]],
  ]);
  const selected = createSelector(publishedMapOf("r", both), 7)("*.example.com");
  assert.deepEqual(["a.example.com", "c.example.org", "x"].map(selected.has), [true, false, false]);
  assert.deepEqual([selected.addressesOf("a.example.com"), selected.addressesOf("x")], [[IP, "2001:db8::9"], []]);
  assert.deepEqual(
    [...selected.byAddress()],
    [
      [IP, new Set(["a.example.com", "b.example.com"])],
      ["2001:db8::9", new Set(["a.example.com"])],
    ],
  );
  assert.equal(selected.byAddress(), selected.byAddress());
  assert.equal(selected.cap, 7);
});
