import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { shorten, wrap } from "./layout.ts";
import { table, tableWithNotes } from "./table.ts";

const longest = (text: string) => Math.max(...text.split("\n").map(({ length }) => length));

describe("wrap", () => {
  it("breaks at the last space that fits, and indents the following lines", () => {
    const text = "warning: the quick brown fox jumps over the lazy dog, and again";
    assert.deepEqual(wrap(text, 40, 2), ["warning: the quick brown fox jumps over", "  the lazy dog, and again"]);
    assert.deepEqual(wrap(text, text.length, 2), [text]);
    assert.deepEqual(wrap(text, undefined, 2), [text]);
  });

  it("keeps every character except the spaces at breaks, and keeps the first line's indentation", () => {
    const host = `${"a".repeat(63)}.`.repeat(3);
    const lines = wrap(`         ${host} and more ${host}`, 80, 9);
    assert.ok(lines.every(({ length }) => length <= 80));
    assert.equal(
      lines
        .map((line) => line.trim())
        .join("")
        .replaceAll(" ", ""),
      `${host}andmore${host}`,
    );
    assert.ok(lines.every((line) => line.startsWith(" ".repeat(9))));
  });

  it("never uses less than 40 columns, and runs in linear time", () => {
    assert.deepEqual(wrap("x".repeat(50), 1, 2), ["x".repeat(40), `  ${"x".repeat(10)}`]);
    const start = performance.now();
    assert.equal(wrap("x ".repeat(200_000).trim(), 80, 2).length, 5_129);
    assert.equal(wrap("x".repeat(400_000), 80, 2).length, 5_129);
    assert.ok(performance.now() - start < 1_000);
  });
});

describe("shorten", () => {
  it("keeps both ends", () => {
    assert.equal(shorten("abcdefghij", 10), "abcdefghij");
    assert.equal(shorten("abcdefghijk", 10), "abcd...ijk");
    assert.equal(shorten("abcdefghijk", 3), "...");
    assert.equal(shorten("abcdefghijk", 0), "");
  });
});

describe("a table", () => {
  const rows = [
    { cells: ["a".repeat(100), "b".repeat(30), "c"], notes: ["d ".repeat(60)] },
    { cells: ["e", "f", "g"] },
  ];

  it("that is too wide is fitted: only its widest columns are shortened", () => {
    const { text, shortened } = tableWithNotes(["ONE", "TWO", "THREE"], rows, 80);
    assert.equal(shortened, true);
    assert.equal(longest(text), 80);
    assert.match(text, /^ {2}a+\.\.\.a+ {2}b{30} {2}c$/m);
    assert.match(text, /^ {2}e +f +g$/m);
  });

  it("that fits is not changed, and a long note is wrapped below its row", () => {
    const [, short = { cells: [] }] = rows;
    const { text, shortened } = tableWithNotes(["ONE", "TWO"], [{ ...short, notes: ["d ".repeat(60).trim()] }], 80);
    assert.equal(shortened, false);
    assert.match(text, /\n {2}e {4}f\n {6}d( d)+\n {8}d( d)+\n$/);
    assert.equal(tableWithNotes(["ONE", "TWO", "THREE"], rows).shortened, false);
  });

  it("escapes its cells and notes", () => {
    assert.match(table(["A"], [["x\ny"]]), /x\\u000ay/);
    assert.match(tableWithNotes(["A"], [{ cells: [""], notes: ["x\u001by"] }]).text, /x\\u001by/);
  });
});
