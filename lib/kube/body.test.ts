import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { test } from "node:test";
import { readBody } from "./body.ts";

const read = (parts: Buffer[], maxBytes: number) =>
  readBody(Readable.from(parts) as unknown as IncomingMessage, "GET /pods", maxBytes);

test("a body is read completely, even if a character is split between chunks", async () => {
  const [first, second] = [Buffer.from("é").subarray(0, 1), Buffer.from("é!").subarray(1)];
  assert.equal(await read([first, second], 3), "é!");
  assert.equal(await read([], 0), "");
});

test("a body that is one byte longer than allowed is an error", async () => {
  await assert.rejects(read([Buffer.from("ab"), Buffer.from("c")], 2), {
    code: "data-corrupt",
    message: "GET /pods: the response is longer than 2 bytes",
  });
});

test("an incomplete character at the end is replaced, not dropped", async () => {
  assert.equal(await read([Buffer.from([0x61, 0xe2, 0x82])], 10), "a\ufffd");
});
