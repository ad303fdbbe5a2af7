import { createHash } from "node:crypto";

/** A prime: buffer sizes are powers of two, so a stream that is shifted by less than this is detected at once. */
export const PERIOD = 1_048_583;
/** Maximum length of one slice. */
export const MAX_SLICE = 1024 * 1024;
/** Number of bytes that identify their position: two positions have eight equal bytes once in about 10^7 tables. */
const FINGERPRINT = 8;

/**
 * The same bytes without any structure in every run. WRAPPED repeats the start after the end, so that a slice need
 * not wrap.
 */
const TABLE = createHash("shake256", { outputLength: PERIOD }).update("a stream of bytes that are all known").digest();
const WRAPPED = Buffer.concat([TABLE, TABLE.subarray(0, MAX_SLICE)]);

/**
 * A stream whose bytes follow from its seed and their positions. A comparison detects lost, repeated, reordered and
 * foreign bytes at the speed of memcmp, without any storage. It misses only the loss of a multiple of PERIOD, so the
 * checker also counts bytes.
 */
export class Pattern {
  readonly #seed: number;

  constructor(seed: number) {
    this.#seed = seed % PERIOD;
  }

  /** `length` bytes from `position` on, at most MAX_SLICE. Returns a view that must not be written to. */
  slice(position: number, length: number): Buffer {
    const start = (this.#seed + position) % PERIOD;
    return WRAPPED.subarray(start, start + length);
  }

  /** Undefined if `chunk` is correct at `position`; otherwise describes the fault for people. */
  fault(position: number, chunk: Buffer): string | undefined {
    for (let done = 0; done < chunk.length; done += MAX_SLICE) {
      const piece = chunk.subarray(done, done + MAX_SLICE);
      const expected = this.slice(position + done, piece.length);
      if (!piece.equals(expected)) return this.#describe(position + done, piece, expected);
    }
    return undefined;
  }

  #describe(position: number, piece: Buffer, expected: Buffer): string {
    let first = 0;
    while (piece[first] === expected[first]) first += 1;
    const seen = piece.subarray(first, first + FINGERPRINT);
    const place = seen.length < FINGERPRINT ? -1 : WRAPPED.indexOf(seen);
    const shift = (place - this.#seed - position - first) % PERIOD;
    const near = shift > PERIOD / 2 ? shift - PERIOD : shift < -PERIOD / 2 ? shift + PERIOD : shift;
    const from = place === -1 ? "no stream's bytes" : `this stream's bytes ${near} further on, or another stream's`;
    const hex = `${seen.toString("hex")} for ${expected.subarray(first, first + FINGERPRINT).toString("hex")}`;
    return `at byte ${position + first}: ${from} (${hex})`;
  }
}

/** Returns numbers in [0, 1) that depend only on the seed, so that a run can be repeated (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
