import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fc } from "#test/property.ts";
import { createLineSplitter } from "./lines.ts";

function split(chunks: string[]): { lines: string[]; rest: number } {
  const lines: string[] = [];
  const splitter = createLineSplitter((line) => lines.push(line));
  for (const chunk of chunks) splitter.push(chunk);
  return { lines, rest: splitter.rest() };
}

describe("the line splitter", () => {
  it("returns the same lines for any chunks", () => {
    const text = fc.array(fc.constantFrom("a", "bc", "\n", "\n\n", "é"), { maxLength: 40 });
    fc.assert(
      fc.property(fc.array(text), (chunks) => {
        const pieces = chunks.map((chunk) => chunk.join(""));
        const whole = pieces.join("").split("\n");
        const rest = whole.pop() ?? "";
        assert.deepEqual(split(pieces), { lines: whole.filter((line) => line !== ""), rest: rest.length });
      }),
    );
  });

  it("rejects a line that never ends", () => {
    const splitter = createLineSplitter(() => {});
    const chunk = "x".repeat(8 * 1024 * 1024);
    splitter.push(chunk);
    splitter.push(chunk);
    assert.throws(() => splitter.push("x"), { code: "data-corrupt" });
  });
});
