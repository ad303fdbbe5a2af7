import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { listSome, printable, printableLines } from "./printable.ts";

describe("characters that a terminal may act on are escaped as in JSON:", () => {
  for (const [what, text, escaped] of [
    ["control characters", "a\u0000b\u001b[2Jc\u007f", "a\\u0000b\\u001b[2Jc\\u007f"],
    ["those of C1", "\u0085\u009b2J", "\\u0085\\u009b2J"],
    ["direction and zero width", "\u202ea\u200e\u200b\ufeff", "\\u202ea\\u200e\\u200b\\ufeff"],
    ["line separators", "a\u2028b\u2029", "a\\u2028b\\u2029"],
    ["characters above U+FFFF, as two", "a\u{e0001}b", "a\\udb40\\udc01b"],
  ] as const) {
    test(what, () => {
      assert.equal(printable(text), escaped);
      assert.equal(printableLines(text), escaped);
      assert.equal(JSON.parse(`"${escaped}"`), text);
    });
  }

  test("line feeds and tabs within a line, but not between lines", () => {
    assert.equal(printable("a\n\tb\r"), "a\\u000a\\u0009b\\u000d");
    assert.equal(printableLines("a\n\tb\r"), "a\n\tb\\u000d");
    assert.equal(printableLines("a\r\nb\r\r\n"), "a\r\nb\\u000d\r\n");
  });

  test("nothing else", () => {
    const text = "shop.example.com é 名 😀 <&> \\u001b";
    assert.deepEqual([printable(text), printableLines(text)], [text, text]);
  });
});

test("the caller may choose other escapes", () => {
  assert.equal(
    printableLines("a\n\u001b\u{e0001}", (char) => `<${char.codePointAt(0)}>`),
    "a\n<27><917505>",
  );
});

test("a long list shows its first items and the number of the others", () => {
  const upper = (word: string) => word.toUpperCase();
  assert.equal(listSome(["a", "b"], 2, upper), "A, B");
  assert.equal(listSome(["a", "b", "c", "d"], 2, upper), "A, B and 2 more");
  assert.equal(listSome([], 2, upper), "");
});
