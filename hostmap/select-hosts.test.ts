import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { publishedMapOf } from "../snapshot/published-map.ts";
import { isGlob, parseGlob } from "./hostnames.ts";
import { createSelector, parseHostsAnnotation } from "./select-hosts.ts";

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

test("without a valid item, a warning says that nothing is injected", () => {
  for (const text of ["", "api_1"]) {
    assert.match(parseHostsAnnotation(text).warnings.at(-1)?.text ?? "", /nothing is injected/);
  }
});

test("an item that matches no name is reported", () => {
  assert.deepEqual(select("a.example.com, absent.example.com").warnings, [
    { code: "item-unmatched", text: "switchback.dev/hosts: no mapped name matches absent.example.com" },
  ]);
  assert.deepEqual(select(undefined).warnings, []);
});

test("over the cap, the first names in name order are selected, and a warning names the annotation", () => {
  const capped = createSelector(mapOf(NAMES), 2)("*");
  assert.deepEqual(capped.names, NAMES.slice(0, 2));
  assert.equal(capped.total, 6);
  assert.deepEqual(capped.warnings, [
    {
      code: "over-cap",
      text: "switchback.dev/hosts: only the first 2 of 6 mapped names are injected; choose fewer",
    },
  ]);
});

test("warnings are few, short and free of control characters, whatever the annotation holds", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 2_000 }), (annotation) => {
      const { warnings } = createSelector(mapOf(NAMES), 1)(annotation);
      assert.ok(warnings.length <= 10);
      // biome-ignore lint/suspicious/noControlCharactersInRegex: the warnings must not contain them
      for (const { text } of warnings) assert.match(text, /^[^\u0000-\u001f\u007f-\uffff]{1,120}$/);
    }),
  );
});

test("a huge annotation is read in part, with a warning", () => {
  const { items, warnings } = parseHostsAnnotation(
    Array.from({ length: 20_000 }, (_, index) => `h${index}.example.com`).join(),
  );
  assert.ok(items.length <= 500);
  assert.deepEqual(
    warnings.map(({ code }) => code),
    ["items-cut"],
  );
});

const label = fc.constantFrom("a", "b", "example", "com", "org");
const anyName = fc.array(label, { minLength: 2, maxLength: 4 }).map((labels) => labels.join("."));
const anyItem = fc.oneof(
  anyName,
  anyName.map((name) => `*.${name}`),
  fc.constantFrom("*", "*.com", "junk_", "*.*.com"),
);

test("the selection equals what the patterns match one by one", () => {
  fc.assert(
    fc.property(fc.uniqueArray(anyName), fc.array(anyItem), (names, items) => {
      const globs = items.map(parseGlob).filter(isGlob);
      const map = mapOf(names);
      assert.deepEqual(
        createSelector(map, 500)(items.join(", ")).names,
        map.names.filter((name) => globs.some((glob) => glob.matches(name))),
      );
    }),
  );
});

test("the revision follows the selection, the cap, the names and the addresses, and nothing else", () => {
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
