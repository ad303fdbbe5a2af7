import assert from "node:assert/strict";
import { test } from "node:test";
import * as z from "zod";
import { fc } from "#test/property.ts";
import { array, attempt, custom, nullish, number, object, oneOf, optional, string, unknown } from "./shape.ts";

const shape = object({
  name: string({ min: 1, max: 5, matches: (text) => /^[a-c]*$/.test(text) }),
  kind: oneOf("one", "two"),
  count: optional(number({ min: 0, max: 9, integer: true })),
  size: number(),
  list: nullish(array(object({ ip: string() }), { min: 1, max: 2 })),
  rest: unknown,
});
const schema = z.object({
  name: z
    .string()
    .min(1)
    .max(5)
    .regex(/^[a-c]*$/),
  kind: z.enum(["one", "two"]),
  count: z.int().min(0).max(9).optional(),
  size: z.number(),
  list: z
    .array(z.object({ ip: z.string() }))
    .min(1)
    .max(2)
    .nullish(),
  rest: z.unknown().optional(),
});

const scalar = fc.constantFrom(null, undefined, "", "a", "abcabc", "d", 0, 9, 10, 1.5, -1, Number.NaN, true, [], {});
const item = fc.oneof(
  scalar,
  fc.record({ ip: fc.oneof(fc.string(), scalar), more: fc.integer() }, { requiredKeys: [] }),
);
const value = fc.oneof(
  { weight: 1, arbitrary: scalar },
  {
    weight: 20,
    arbitrary: fc.record(
      {
        name: fc.oneof({ weight: 4, arbitrary: fc.constantFrom("a", "bc") }, scalar),
        kind: fc.oneof({ weight: 4, arbitrary: fc.constantFrom("one", "two") }, scalar),
        count: fc.oneof({ weight: 4, arbitrary: fc.integer({ min: -1, max: 11 }) }, scalar),
        size: fc.oneof({ weight: 4, arbitrary: fc.double() }, scalar),
        list: fc.oneof(fc.array(item, { maxLength: 3 }), scalar),
        rest: scalar,
        other: scalar,
      },
      { requiredKeys: [] },
    ),
  },
);

test("property: a shape accepts what the schema library accepts, reads the same, and names the same place", () => {
  let accepted = 0;
  fc.assert(
    fc.property(value, (given) => {
      const [ours, theirs] = [attempt(shape, given), schema.safeParse(given)];
      if (theirs.success) accepted += 1;
      assert.equal(ours.flaw === undefined, theirs.success);
      if (theirs.success) assert.deepEqual(JSON.stringify(ours.value), JSON.stringify(theirs.data));
      else {
        const places = theirs.error.issues.map(({ path }) => path.join("."));
        assert.ok(places.includes(ours.flaw?.path.join(".") ?? ""), `${ours.flaw?.path.join(".")} of ${places}`);
      }
    }),
    { numRuns: 2_000 },
  );
  assert.ok(accepted > 20, `${accepted}`);
});

test("what is wrong is said with its place, and nothing of the value", () => {
  const good = { name: "a", kind: "one", size: 1 };
  const said = (given: unknown) => {
    const { flaw } = attempt(shape, given);
    return `${flaw?.path.join(".")}: ${flaw?.message}`;
  };
  for (const [given, expected] of [
    [[], ": Invalid input: expected object, received array"],
    [{ ...good, name: null }, "name: Invalid input: expected string, received null"],
    [{ ...good, name: "secret" }, "name: Invalid string"],
    [{ ...good, kind: "secret" }, 'kind: Invalid input: expected "one" or "two"'],
    [{ ...good, count: 10 }, "count: Invalid number"],
    [{ ...good, size: "1" }, "size: Invalid input: expected number, received string"],
    [{ ...good, list: {} }, "list: Invalid input: expected array, received object"],
    [{ ...good, list: [] }, "list: expected 1 to 2 items"],
    [{ ...good, list: [{ ip: "" }, {}] }, "list.1.ip: Invalid input: expected string, received undefined"],
  ] as const) {
    assert.equal(said(given), expected);
  }
  const even = custom<number>((each) => Number(each) % 2 === 0, "an even number");
  assert.equal(attempt(even, 3).flaw?.message, "Invalid input: expected an even number");
  assert.equal(attempt(even, 4).value, 4);
});

test("an error of another kind is not taken for a flaw", () => {
  const broken = string({
    matches: () => {
      throw new TypeError("a bug");
    },
  });
  assert.throws(() => attempt(broken, ""), TypeError);
});
