import assert from "node:assert/strict";
import { test } from "node:test";
import { listAt, mapAt, textAt } from "./fields.ts";

const VALUES = { map: { a: 1 }, list: ["secret"], text: "secret" };
const WORDS = { map: "a map", list: "a list", text: "a string", null: "null", number: "a number" };
const READERS = [
  ["map", mapAt],
  ["list", listAt],
  ["text", textAt],
] as const;

const messageOf = (wanted: keyof typeof WORDS, given: string): string =>
  given === "nothing" ? "is missing" : `must be ${WORDS[wanted]}, not ${WORDS[given as keyof typeof WORDS]}`;

for (const [kind, read] of READERS) {
  test(`a ${kind} is returned as it is, and another value is an error that names the field only`, () => {
    for (const [name, value] of Object.entries({ ...VALUES, nothing: undefined, null: null, number: 1 })) {
      if (name === kind) assert.equal(read(value, "spec.x"), value);
      else
        assert.throws(() => read(value, "spec.x"), {
          code: "input-invalid",
          message: `spec.x: ${messageOf(kind, name)}`,
        });
    }
  });
}
