import assert from "node:assert/strict";
import { test } from "node:test";
import { MAX_SLICE, Pattern, PERIOD, randomFrom } from "./pattern.ts";

const pattern = new Pattern(123_456);

test("a stream's bytes are correct at their position, even across the end of the table", () => {
  for (const position of [0, 1, PERIOD - 123_456 - 3, PERIOD, 5 * PERIOD + 17]) {
    const chunk = Buffer.from(pattern.slice(position, 70_000));
    assert.equal(chunk.length, 70_000);
    assert.equal(pattern.fault(position, chunk), undefined);
  }
  const long = Buffer.concat([pattern.slice(0, MAX_SLICE), pattern.slice(MAX_SLICE, 99)]);
  assert.equal(pattern.fault(0, long), undefined);
});

test("one wrong byte is detected and reported", () => {
  const chunk = Buffer.from(pattern.slice(1000, 5000));
  chunk[4321] = (chunk[4321] ?? 0) ^ 1;
  assert.match(pattern.fault(1000, chunk) ?? "", /^at byte 5321: no stream's bytes/);
});

test("lost or duplicated bytes are reported with their offset", () => {
  const lost = Buffer.concat([pattern.slice(0, 100), pattern.slice(165, 4000)]);
  assert.match(pattern.fault(0, lost) ?? "", /^at byte 100: this stream's bytes 65 further on/);
  const doubled = Buffer.concat([pattern.slice(0, 65_536), pattern.slice(0, 65_536)]);
  assert.match(pattern.fault(0, doubled) ?? "", /^at byte 65536: this stream's bytes -65536 further on/);
});

test("the bytes of another stream are wrong", () => {
  assert.notEqual(pattern.fault(0, Buffer.from(new Pattern(77).slice(0, 16))), undefined);
});

test("the same seed gives the same numbers, spread over [0, 1)", () => {
  const one = randomFrom(7);
  const other = randomFrom(7);
  const numbers = Array.from({ length: 1000 }, () => one());
  assert.deepEqual(
    numbers,
    Array.from({ length: 1000 }, () => other()),
  );
  assert.ok(numbers.every((number) => number >= 0 && number < 1));
  const mean = numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
  assert.ok(Math.abs(mean - 0.5) < 0.05);
});
