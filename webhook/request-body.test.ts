import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { createBodyReader, type Refusal } from "./request-body.ts";

const LIMIT = 200_000;

function incoming(headers: Record<string, string> = {}) {
  const stream = new PassThrough({ highWaterMark: 10 * LIMIT });
  return Object.assign(stream, { headers: { "content-type": "application/json", ...headers } });
}

function start(read: ReturnType<typeof createBodyReader>, stream: PassThrough): Promise<Buffer | Refusal> {
  return read(stream as unknown as IncomingMessage);
}

function statusOf(result: Buffer | Refusal): number {
  return Buffer.isBuffer(result) ? 200 : result.status;
}

/** Lets written chunks arrive. */
const settle = () => new Promise((resolve) => setImmediate(resolve));

test("a body in several chunks is read as a whole", async () => {
  const stream = incoming();
  const body = start(createBodyReader(LIMIT), stream);
  for (const piece of ["{", '"a"', ":1}"]) stream.write(piece);
  stream.end();
  assert.equal((await body).toString(), '{"a":1}');
});

test("a body of exactly the limit is read, and one byte more is refused, even without a content-length", async () => {
  for (const [size, status] of [
    [LIMIT, 200],
    [LIMIT + 1, 413],
  ] as const) {
    const stream = incoming();
    const body = start(createBodyReader(LIMIT), stream);
    stream.write(Buffer.alloc(size - 10));
    stream.end(Buffer.alloc(10));
    assert.equal(statusOf(await body), status);
  }
});

test("a content-length over the limit is refused before the body arrives", async () => {
  assert.equal(statusOf(await start(createBodyReader(LIMIT), incoming({ "content-length": `${LIMIT + 1}` }))), 413);
});

for (const [type, status] of [
  ["application/json", 200],
  ["Application/JSON; charset=utf-8", 200],
  ["application/json-patch+json", 415],
  ["text/json", 415],
  ["", 415],
] as const) {
  test(`content-type ${type || "(none)"}: ${status}`, async () => {
    const stream = incoming({ "content-type": type });
    const body = start(createBodyReader(LIMIT), stream);
    stream.end("{}");
    assert.equal(statusOf(await body), status);
  });
}

test("a disconnect is distinguished from the end of the body", async () => {
  const stream = incoming();
  const body = start(createBodyReader(LIMIT), stream);
  stream.write("{");
  await settle();
  stream.destroy(new Error("aborted"));
  assert.equal(statusOf(await body), 400);
});

test("large bodies share a budget, small ones pass, and finished bodies release their share", async () => {
  const read = createBodyReader(LIMIT);
  const large = Array.from({ length: 4 }, () => incoming());
  const bodies = large.map((stream) => start(read, stream));
  for (const stream of large) stream.write(Buffer.alloc(150_000));
  await settle();
  // Two of them fit into twice the limit; the others are refused at once.
  assert.deepEqual((await Promise.all(bodies.slice(2))).map(statusOf), [503, 503]);
  const small = incoming();
  const passed = start(read, small);
  small.end(Buffer.alloc(60_000));
  assert.equal(statusOf(await passed), 200);
  large[0]?.end();
  large[1]?.destroy();
  assert.deepEqual((await Promise.all(bodies.slice(0, 2))).map(statusOf), [200, 400]);
  for (let times = 0; times < 10; times += 1) {
    const again = incoming();
    const body = start(read, again);
    again.end(Buffer.alloc(LIMIT));
    assert.equal(statusOf(await body), 200);
  }
});
