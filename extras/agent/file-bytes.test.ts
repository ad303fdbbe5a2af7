import assert from "node:assert/strict";
import { test } from "node:test";
import { concatenated, createScratchBuffer, onText } from "./file-bytes.ts";

const KIB = 1024;

test("an unchanged text returns the same buffer, and a changed text keeps every other byte", () => {
  const before = Buffer.from([0x61, 0xff, 0xc3, 0x0a]);
  assert.equal(onText((text) => text)(before), before);
  assert.deepEqual(onText((text) => `${text}é`)(before), Buffer.from([0x61, 0xff, 0xc3, 0x0a, 0xe9]));
});

test("a scratch buffer has the requested size; its memory is reused, and at least doubles when it grows", () => {
  const scratch = createScratchBuffer();
  const sizes = [10, 64 * KIB, 64 * KIB + 1, 128 * KIB, 300 * KIB, 1];
  const buffers = sizes.map(scratch);
  assert.deepEqual(
    buffers.map(({ length }) => length),
    sizes,
  );
  assert.deepEqual(
    buffers.map(({ buffer }) => buffer.byteLength / KIB),
    [64, 64, 128, 128, 300, 300],
  );
  assert.equal(buffers[0]?.buffer, buffers[1]?.buffer);
  assert.equal(buffers[4]?.buffer, buffers[5]?.buffer);
  assert.notEqual(createScratchBuffer()(1).buffer, buffers[5]?.buffer);
});

test("two buffers are concatenated by a copy only if neither is empty", () => {
  const [none, a, b] = ["", "alpha", "beta"].map((text) => Buffer.from(text)) as [Buffer, Buffer, Buffer];
  const scratch = createScratchBuffer();
  assert.equal(concatenated(none, a, scratch), a);
  assert.equal(concatenated(a, none, scratch), a);
  const both = concatenated(a, b, scratch);
  assert.equal(both.toString(), "alphabeta");
  assert.equal(both.buffer, scratch(1).buffer);
});
