import assert from "node:assert/strict";
import { test } from "node:test";
import { type Answer, recordingLibc } from "#test/fakes/recording-libc.ts";
import { ERRNO } from "./abi.ts";
import { WORDS_OFFSET } from "./memory.ts";
import { PipePool } from "./pipes.ts";

const KIB = 1024;
/** Non-blocking, closed on exec. */
const PIPE2 = `pipe2 @${WORDS_OFFSET} ${0o2004000}`;
const setSize = (fd: number, kib: number) => `fcntl ${fd} 1031 ${kib * KIB}`;

function start(answer?: Answer) {
  const { libc, taken } = recordingLibc(answer);
  const files = { areOut: false };
  return { pool: new PipePool(libc, () => files.areOut), files, taken };
}

/** The kernel allows pipes of at most this size. */
const upTo =
  (kib: number): Answer =>
  (call, [, , bytes]) =>
    call === "fcntl" && (bytes ?? 0) > kib * KIB ? -ERRNO.EPERM : undefined;

test("a pipe of 1 MiB is made, and used again when it is empty", () => {
  const { pool, taken } = start();
  const pipe = pool.acquire();
  assert.deepEqual(pipe, { read: 100, write: 101, bytes: 0 });
  assert.deepEqual(taken(), [PIPE2, setSize(101, 1024)]);
  if (pipe !== undefined) pool.release(pipe);
  assert.equal(pool.acquire(), pipe);
  assert.deepEqual(taken(), []);
});

test("a pipe with bytes in it is closed, and another may take its place", () => {
  const { pool, taken } = start();
  const pipe = pool.acquire();
  if (pipe !== undefined) pool.release(Object.assign(pipe, { bytes: 1 }));
  assert.deepEqual(taken().slice(2), ["close 100", "close 101"]);
  assert.deepEqual(pool.acquire(), { read: 102, write: 103, bytes: 0 });
});

test("a thread has at most twelve pipes, in use or not", () => {
  const { pool } = start();
  const pipes = Array.from({ length: 12 }, () => pool.acquire());
  assert.equal(new Set(pipes.map((pipe) => pipe?.read)).size, 12);
  assert.equal(pool.acquire(), undefined);
  const [first, second] = pipes;
  if (first !== undefined) pool.release(first);
  assert.equal(pool.acquire(), first);
  assert.equal(pool.acquire(), undefined);
  if (second !== undefined) pool.release(Object.assign(second, { bytes: 5 }));
  assert.notEqual(pool.acquire(), undefined);
  assert.equal(pool.acquire(), undefined);
});

for (const [largest, asked, next] of [
  [512, [1024, 512], [512]],
  [128, [1024, 512, 256, 128], [128]],
  [64, [1024, 512, 256, 128], []],
] as const) {
  test(`if the kernel allows at most ${largest} KiB, later pipes do not request a larger size`, () => {
    const { pool, taken } = start(upTo(largest));
    pool.acquire();
    assert.deepEqual(
      taken().slice(1),
      asked.map((kib) => setSize(101, kib)),
    );
    pool.acquire();
    assert.deepEqual(
      taken().slice(1),
      next.map((kib) => setSize(103, kib)),
    );
  });
}

test("acquire returns undefined if no pipe can be created, which does not count as a pipe", () => {
  let isRefused = true;
  const { pool, taken } = start((call) => (call === "pipe2" && isRefused ? -ERRNO.EMFILE : undefined));
  for (let count = 0; count < 20; count += 1) assert.equal(pool.acquire(), undefined);
  assert.deepEqual(new Set(taken()), new Set([PIPE2]));
  isRefused = false;
  assert.notEqual(pool.acquire(), undefined);
});

test("a pipe is closed again if other workers need its descriptors, and does not count", () => {
  const { pool, files, taken } = start();
  files.areOut = true;
  for (let count = 0; count < 20; count += 1) assert.equal(pool.acquire(), undefined);
  assert.deepEqual(taken().slice(0, 3), [PIPE2, "close 100", "close 101"]);
  files.areOut = false;
  assert.notEqual(pool.acquire(), undefined);
});

test("close closes each unused pipe once", () => {
  const { pool, taken } = start();
  const [one] = [pool.acquire(), pool.acquire()];
  if (one !== undefined) pool.release(one);
  taken();
  pool.close();
  pool.close();
  assert.deepEqual(taken(), ["close 100", "close 101"]);
});
