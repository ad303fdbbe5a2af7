import assert from "node:assert/strict";
import { test } from "node:test";
import { crc32c } from "./crc32c.ts";

const cases: [string, Uint8Array, number][] = [
  ["the check value of the CRC catalogue", Buffer.from("123456789"), 0xe3069283],
  ["32 zeros (RFC 3720, B.4)", new Uint8Array(32), 0x8a9136aa],
  ["32 times ff (RFC 3720, B.4)", new Uint8Array(32).fill(0xff), 0x62a8ab43],
  ["nothing", new Uint8Array(0), 0],
];

for (const [title, bytes, expected] of cases) {
  test(`crc32c of ${title}`, () => assert.equal(crc32c(bytes), expected));
}
