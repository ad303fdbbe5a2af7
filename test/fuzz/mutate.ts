import type { Random } from "./random.ts";

/** Upper limit of changes to one input. */
const MAX_CHANGES = 6;
/** One in this many inputs gets one of the large values. */
const LARGE_ONE_IN = 50;
const MAX_COPIES = 3_000;

/** Odd values for a name, a number, a list, an address, an annotation or a line. */
const ODD: readonly unknown[] = [
  null,
  true,
  "",
  " ",
  ".",
  "..",
  "../../etc/hosts",
  "%2e%2e",
  "a/b",
  "-",
  "*",
  "*.",
  "*.*.com",
  "a.example.com\n198.51.100.66 b.example.com",
  "a\u0000b",
  "\u001b[2J\u001b]0;x\u0007",
  "\ud800",
  "\u202e",
  "__proto__",
  "constructor",
  "0x7f.1",
  "::ffff:127.0.0.1",
  "999.1.1.1",
  "fe80::1%eth0",
  "9007199254740993",
  "-1",
  "1e309",
  "*,*,*,*",
  "(a+)+$",
  -1,
  0,
  1e300,
  2 ** 53,
  0.5,
  [],
  {},
  [[]],
  { __proto__: null, toString: 1 },
];

/** Large values that the API server still accepts: 1.5 MiB for an object, 256 KiB for all annotations. */
const LARGE: readonly (() => unknown)[] = [
  () => "a".repeat(200_000),
  () => "a.".repeat(100_000),
  () => "1 ".repeat(100_000),
  () => "\n".repeat(200_000),
  () => "*.".repeat(50_000),
  () => "a,".repeat(100_000),
  () => Array.from({ length: 10_000 }, (_, index) => `${index}.example.com`),
  () => Array.from({ length: 10_000 }, () => ({})),
  () => Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`k${index}`, "v"])),
  () => nested(2_000),
];

function nested(depth: number): unknown {
  let value: unknown = "deep";
  for (let level = 0; level < depth; level += 1) value = level % 2 === 0 ? [value] : { a: value };
  return value;
}

type Container = unknown[] | Record<string, unknown>;

/** A copy of a JSON value with a few changes anywhere in it. */
export function mutated(value: unknown, random: Random): unknown {
  const root = { value: structuredClone(value) };
  for (let left = 1 + random.below(MAX_CHANGES); left > 0; left -= 1) changeOne(root, random);
  // An object stays an object: the API server and the files' parser return nothing else.
  return typeof root.value === "object" && root.value !== null ? root.value : {};
}

function changeOne(root: { value: unknown }, random: Random): void {
  const [container, key] = somewhere(root, random);
  const old = Reflect.get(container, key);
  const change = random.below(6);
  if (change === 0) Reflect.deleteProperty(container, key);
  else if (change === 1 && Array.isArray(old) && old.length > 0) {
    const item = random.pick(old);
    const copies = random.below(LARGE_ONE_IN) === 0 ? MAX_COPIES : random.below(5);
    Reflect.set(container, key, [...old, ...Array.from({ length: copies }, () => structuredClone(item))]);
  } else if (change === 2 && typeof old === "string") Reflect.set(container, key, mutatedText(old, random));
  else if (change === 3 && !Array.isArray(container)) {
    Reflect.set(container, String(random.pick(ODD.filter((odd) => typeof odd === "string"))), old);
  } else Reflect.set(container, key, structuredClone(oddValue(random)));
}

function oddValue(random: Random): unknown {
  return random.below(LARGE_ONE_IN) === 0 ? random.pick(LARGE)() : random.pick(ODD);
}

/** A random place in the tree, at any depth. */
function somewhere(root: { value: unknown }, random: Random): [Container, string] {
  let container: Container = root;
  let key = "value";
  for (;;) {
    const inner = Reflect.get(container, key);
    if (typeof inner !== "object" || inner === null || random.below(5) === 0) return [container, key];
    const keys = Object.keys(inner);
    if (keys.length === 0) return [container, key];
    container = inner as Container;
    key = random.pick(keys);
  }
}

/** A text in which a few pieces are removed, repeated, replaced or inserted. */
export function mutatedText(text: string, random: Random): string {
  let result = text;
  for (let left = 1 + random.below(MAX_CHANGES); left > 0; left -= 1) {
    const from = random.below(result.length + 1);
    const to = Math.min(result.length, from + random.below(20));
    const piece = result.slice(from, to);
    const odd = oddValue(random);
    const put = [
      "",
      piece.repeat(random.below(LARGE_ONE_IN) === 0 ? MAX_COPIES : random.below(4)),
      typeof odd === "string" ? odd : "",
      "\n",
      String.fromCharCode(random.below(256)),
    ];
    result = result.slice(0, from) + random.pick(put) + result.slice(to);
  }
  return result;
}
