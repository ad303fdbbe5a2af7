import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { createBodyReader, type Refusal } from "./request-body.ts";

const LIMIT = 200_000;

function incoming(headers: Record<string, string> = {}) {
  const stream = new PassThrough({ highWaterMark: 10 * LIMIT });
  return Object.assign(stream, { headers: { "content-type": "application/json", ...headers } });
}

function start(read: ReturnType<typeof createBodyReader>, stream: PassThrough): Promise<Buffer | Refusal> {
  return new Promise((resolve) => read(stream as unknown as IncomingMessage, resolve));
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

/** More than two bodies of `SIZE`, less than three. */
const BUDGET = 500_000;
const SIZE = 190_000;

test("all bodies share a budget: beyond it, the one that began first is refused, and later ones are read", async () => {
  const read = createBodyReader(LIMIT, BUDGET);
  const slow = Array.from({ length: 3 }, () => incoming());
  const bodies = slow.map((stream) => start(read, stream));
  for (const stream of slow) stream.write(Buffer.alloc(SIZE));
  await settle();
  assert.equal(statusOf((await bodies[0]) as Refusal), 503);
  const later = incoming();
  const passed = start(read, later);
  later.end(Buffer.alloc(SIZE));
  assert.equal(statusOf((await bodies[1]) as Refusal), 503);
  assert.equal(statusOf(await passed), 200);
  slow[2]?.end();
  assert.equal(statusOf(await (bodies[2] as Promise<Buffer | Refusal>)), 200);
});

test("small bodies count too, and a body in tiny chunks counts with the overhead of its chunks", async () => {
  const read = createBodyReader(LIMIT, BUDGET);
  const small = Array.from({ length: 10 }, () => incoming());
  const bodies = small.map((stream) => start(read, stream));
  for (const stream of small.slice(0, 9)) stream.write(Buffer.alloc(50_000));
  await settle();
  for (let crumbs = 0; crumbs < 500; crumbs += 1) small[9]?.write("x");
  await settle();
  for (const stream of small) stream.end();
  const statuses = (await Promise.all(bodies)).map(statusOf);
  assert.deepEqual(statuses, [503, 503, 200, 200, 200, 200, 200, 200, 200, 200]);
});

test("a complete body takes no share of the budget, because its end follows at once", async () => {
  const read = createBodyReader(LIMIT, BUDGET);
  const slow = incoming();
  const first = start(read, slow);
  slow.write(Buffer.alloc(SIZE));
  const whole = Array.from({ length: 3 }, () => incoming({ "content-length": `${SIZE}` }));
  const bodies = whole.map((stream) => start(read, stream));
  for (const stream of whole) stream.write(Buffer.alloc(SIZE));
  await settle();
  for (const stream of [slow, ...whole]) stream.end();
  assert.deepEqual((await Promise.all([first, ...bodies])).map(statusOf), [200, 200, 200, 200]);
});

test("the chunks of a refused body are freed even while its client stays connected", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const read = createBodyReader(LIMIT, BUDGET);
  collect();
  const before = process.memoryUsage().arrayBuffers;
  const slow = Array.from({ length: 50 }, () => incoming());
  const bodies = slow.map((stream) => start(read, stream));
  for (const stream of slow) stream.write(Buffer.alloc(SIZE));
  await settle();
  for (const body of bodies.slice(0, 48)) assert.equal(statusOf(await body), 503);
  // Two bodies are left; all of them would be 9.5 MB. V8 frees buffers in another thread, after the collection.
  let held = Number.POSITIVE_INFINITY;
  for (let times = 0; times < 20 && held > 2 * BUDGET; times += 1) {
    collect();
    await settle();
    held = process.memoryUsage().arrayBuffers - before;
  }
  assert.ok(held < 2 * BUDGET, `${held} bytes`);
  for (const stream of slow) stream.end();
});

test("finished, refused and aborted bodies release their share", async () => {
  const read = createBodyReader(LIMIT, BUDGET);
  for (let times = 0; times < 10; times += 1) {
    const streams = Array.from({ length: 3 }, () => incoming());
    const [aborted, tooLarge, whole] = streams.map((stream) => start(read, stream));
    streams[0]?.write(Buffer.alloc(SIZE));
    await settle();
    streams[0]?.destroy();
    assert.equal(statusOf((await aborted) as Refusal), 400);
    streams[1]?.write(Buffer.alloc(LIMIT + 1));
    assert.equal(statusOf((await tooLarge) as Refusal), 413);
    streams[2]?.end(Buffer.alloc(LIMIT));
    assert.equal(statusOf((await whole) as Buffer), 200);
  }
});
