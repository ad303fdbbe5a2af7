import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { rewrite, type WritableFile } from "./rewrite-file.ts";

const bytes = (text: string) => Buffer.from(text, "latin1");

/** A file that records the calls of a rewrite. `take` returns how many of a call's bytes are written, or throws. */
function recordingFile(size: number, take: (text: string, call: number) => number = (text) => text.length) {
  const calls: string[] = [];
  const put = (call: string, part: Buffer): number => {
    const text = part.toString("latin1");
    calls.push(`${call} ${JSON.stringify(text)}`);
    return take(text, calls.length);
  };
  const state = { size };
  const file: WritableFile = {
    append(part) {
      const count = put("append", part);
      state.size += count;
      return count;
    },
    write: (part, position) => put(`write@${position}`, part),
    truncate(to) {
      calls.push(`truncate ${to}`);
      state.size = to;
    },
    size: () => state.size,
  };
  return { file, calls, state };
}

const full = Object.assign(new Error("no space left on device"), { code: "ENOSPC" });

describe("a rewrite", () => {
  for (const [what, before, after, expected] of [
    ["of nothing new makes no call", "a\nb\n", "a\nb\n", []],
    ["of an empty file appends it", "", "a\n", ['append "a\\n"']],
    ["that only adds lines only appends them", "a\nb\n", "a\nb\nc\n", ['append "c\\n"']],
    ["that only drops lines only truncates", "a\nb\n", "a\n", ["truncate 2"]],
    ["to nothing only truncates", "a\nb\n", "", ["truncate 0"]],
    ["of one byte writes that byte", "abc\ndef\n", "abc\ndXf\n", ['write@5 "X"']],
    ["of the ends writes all between them", "abc\n", "Xbc!", ['write@0 "Xbc!"']],
    ["that keeps the last line appends after it", "x\nb\n", "y\nb\nc\n", ['append "c\\n"', 'write@0 "y"']],
    ["that keeps an empty last line, too", "ab\n\n", "cd\n\ne\n", ['append "e\\n"', 'write@0 "cd"']],
    [
      "that moves the last line extends the file by empty lines first",
      "a\nz\n",
      "b\na\nz\n",
      ['append "\\n\\n"', 'write@0 "b\\na\\nz"'],
    ],
    ["of a lone empty line, too", "\n", "a\nb\n", ['append "\\n\\n\\n"', 'write@0 "a\\nb"']],
    ["continues a last line that has no end with one", "a\nb", "a\nb\nc\n", ['append "\\nc\\n"']],
    ["of two bytes, too", "\nb", "ab\nc", ['append "\\nc"', 'write@0 "a"']],
    ["does not show half of a line that grows", "a", "ab", ['append "\\n"', 'write@1 "b"']],
    [
      "that shrinks ends in empty lines before it is cut",
      "a\nb\nc\n",
      "x\nb\n",
      ['write@0 "x\\nb\\n\\n"', "truncate 4"],
    ],
  ] as const) {
    it(what, () => {
      const { file, calls } = recordingFile(before.length);
      rewrite(file, bytes(before), bytes(after));
      assert.deepEqual(calls, expected);
    });
  }

  it("continues after a partial write", () => {
    const grown = recordingFile(2, () => 2);
    rewrite(grown.file, bytes("a\n"), bytes("a\nbc\ndef\n".slice(0, 8)));
    assert.deepEqual(grown.calls, ['append "bc\\ndef"', 'append "\\ndef"', 'append "ef"']);
    const changed = recordingFile(8, () => 2);
    rewrite(changed.file, bytes("a1234567"), bytes("aABCDEF7"));
    assert.deepEqual(changed.calls, ['write@1 "ABCDEF"', 'write@3 "CDEF"', 'write@5 "EF"']);
  });

  it("fails if a write returns 0 bytes", () => {
    const { file, calls } = recordingFile(2, () => 0);
    assert.throws(() => rewrite(file, bytes("a\n"), bytes("a\nb\n")), { message: "the write returned 0 bytes" });
    assert.deepEqual(calls, ['append "b\\n"']);
  });

  it("that cannot extend the file removes what was appended", () => {
    const { file, calls } = recordingFile(2, (_, call) => {
      if (call === 2) throw full;
      return 1;
    });
    assert.throws(() => rewrite(file, bytes("a\n"), bytes("a\nb\n")), full);
    assert.deepEqual(calls, ['append "b\\n"', 'append "\\n"', "truncate 2"]);
  });

  it("that fails does not extend a file that somebody has shortened", () => {
    const { file, calls, state } = recordingFile(2, () => {
      state.size = 1;
      throw full;
    });
    assert.throws(() => rewrite(file, bytes("a\n"), bytes("a\nb\n")), full);
    assert.deepEqual(calls, ['append "b\\n"']);
  });

  it("that cannot overwrite restores the old bytes, then the old length", () => {
    const { file, calls } = recordingFile(6, (text, call) => {
      if (call === 3) throw full;
      return call === 2 ? 2 : text.length;
    });
    assert.throws(() => rewrite(file, bytes("k\na\nz\n"), bytes("k\nb\na\nz\n")), full);
    assert.deepEqual(calls, [
      'append "\\n\\n"',
      'write@2 "b\\na\\nz"',
      'write@4 "a\\nz"',
      'write@2 "a\\n"',
      "truncate 6",
    ]);
  });

  it("that cannot restore the old bytes either fails with the first error", () => {
    const { file, calls } = recordingFile(4, (_, call) => {
      throw call === 1 ? full : new Error("the second");
    });
    assert.throws(() => rewrite(file, bytes("a\nb\n"), bytes("a\nc\n")), full);
    assert.deepEqual(calls, ['write@2 "c"', 'write@2 ""']);
  });
});
