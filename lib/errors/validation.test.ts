import assert from "node:assert/strict";
import { test } from "node:test";
import * as v from "valibot";
import { fc } from "#test/property.ts";
import { finite, integer, number, object, record, strictObject, text } from "./schemas.ts";
import { attempt, parse, renderFlaw, validate } from "./validation.ts";

const short = v.pipe(v.string(), v.minLength(1), v.maxLength(5), v.regex(/^[a-c]*$/));
const schema = object({
  name: short,
  kind: v.picklist(["one", "two"]),
  count: v.optional(integer(0, 9)),
  size: finite,
  list: v.nullish(v.pipe(v.array(object({ ip: v.string() })), v.minLength(1), v.maxLength(2))),
  rest: v.optional(v.unknown()),
});
const good = { name: "a", kind: "one", size: 1 };

/** Returns every flaw of a value, one line each. */
const flaws = (value: unknown, of: v.GenericSchema = schema) => validate(of, value).flaws.map(renderFlaw);

for (const [given, expected] of [
  [[], "(top): must be a map, not a list"],
  [null, "(top): must be a map, not null"],
  [{ ...good, name: null }, "name: must be a string, not null"],
  [{ ...good, name: "secret" }, "name: must have at most 5 characters"],
  [{ ...good, name: "x" }, "name: is not valid"],
  [{ ...good, kind: "secret" }, 'kind: must be one of "one", "two"'],
  [{ ...good, count: 10 }, "count: must be at most 9"],
  [{ ...good, count: 0.5 }, "count: must be a whole number"],
  [{ ...good, size: "1" }, "size: must be a number, not a string"],
  [{ ...good, list: {} }, "list: must be a list, not a map"],
  [{ ...good, list: [] }, "list: must not be empty"],
  [{ ...good, list: [{ ip: "" }, {}] }, "list[1].ip: is missing"],
] as const) {
  test(`a flaw has its place and nothing of the value: ${expected}`, () => {
    assert.deepEqual(flaws(given), [expected]);
    const { flaw } = attempt(schema, given);
    assert.equal(flaw && renderFlaw(flaw), expected);
    assert.throws(() => parse(schema, given), { name: "TypeError", message: expected });
  });
}

test("a map keeps the fields that the schema knows", () => {
  assert.deepEqual(parse(schema, { ...good, more: 1 }), good);
});

test("a strict map reports an unknown key, even one that every object inherits", () => {
  const strict = strictObject({ a: v.optional(text), b: v.optional(number(0, 1)) });
  for (const key of ["c", "__proto__", "toString"]) {
    assert.deepEqual(flaws(JSON.parse(`{"a":"","${key}":1}`), strict), [
      "a: must not be empty",
      `${key}: unknown setting; accepted are a, b`,
    ]);
  }
  assert.deepEqual(flaws([], strict), ["(top): must be a map, not a list"]);
  assert.deepEqual(
    validate(strict, { c: 1 }).flaws.map(({ isUnknownKey }) => isUnknownKey),
    [true],
  );
});

test("a map with any keys keeps them, but none that would change the prototype of the result", () => {
  const labels = record(v.pipe(v.string(), v.maxLength(12)), v.string());
  assert.deepEqual(parse(labels, JSON.parse('{"a":"b","__proto__":{"c":"d"}}')), { a: "b" });
  assert.deepEqual(flaws({ "longer-than-12-characters": "a", b: 1 }, labels), [
    "longer-than-12-characters: must have at most 12 characters",
    "b: must be a string, not a number",
  ]);
  assert.deepEqual(flaws([], labels), ["(top): must be a map, not a list"]);
});

test("a number must be finite", () => {
  for (const kind of [finite, number(0, 8), integer()]) assert.equal(flaws(Number.POSITIVE_INFINITY, kind).length, 1);
});

test("a document is checked up to its first flaw, a configuration completely", () => {
  const list = v.array(v.string());
  const numbers = Array.from({ length: 1_000 }, (_, index) => index);
  assert.deepEqual(attempt(list, numbers).flaw?.path, [0]);
  assert.equal(flaws(numbers, list).length, 1_000);
  let reads = 0;
  const counted = v.custom<string>(() => {
    reads += 1;
    return false;
  });
  const map = object({ a: counted, b: counted, c: counted });
  const wrong = { a: 0, b: 0, c: 0 };
  assert.deepEqual(attempt(map, wrong).flaw?.path, ["a"]);
  assert.equal(reads, 1);
  assert.deepEqual(
    validate(map, wrong).flaws.map(({ path }) => path),
    [["a"], ["b"], ["c"]],
  );
});

test("an error of another kind is not treated as a flaw", () => {
  const broken = v.pipe(
    v.string(),
    v.check(() => {
      throw new RangeError("a bug");
    }),
  );
  assert.throws(() => attempt(broken, ""), RangeError);
});

test("property: any value is parsed or refused, and a parsed value parses again to the same value", () => {
  fc.assert(
    fc.property(
      fc.oneof(fc.anything(), fc.record({ name: fc.constant("a"), kind: fc.constant("two"), size: fc.double() })),
      (given) => {
        const { value, flaw } = attempt(schema, given);
        if (flaw === undefined) assert.deepEqual(parse(schema, value), value);
      },
    ),
  );
});
