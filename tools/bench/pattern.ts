import { createHash } from "node:crypto";

/**
 * A prime: a stream that is shifted by anything less than this looks wrong at once, and buffers come in powers of two.
 */
export const PERIOD = 1_048_583;
/** Longest slice that can be had in one piece. */
export const MAX_SLICE = 1024 * 1024;
/** Bytes that are enough to find their place: two places have eight equal bytes once in some 10^7 tables. */
const FINGERPRINT = 8;

/**
 * The same bytes in every run, without any structure; the start stands behind the end once more, so that a slice
 * need not wrap.
 */
const TABLE = createHash("shake256", { outputLength: PERIOD }).update("a stream of bytes that are all known").digest();
const WRAPPED = Buffer.concat([TABLE, TABLE.subarray(0, MAX_SLICE)]);

/**
 * A stream of which every byte is known from its seed and its position: what is lost, doubled, out of order or
 * another stream's is seen by comparing, at the speed of memcmp and without keeping anything. Only the loss of a
 * multiple of PERIOD would not be; the checker also counts bytes.
 */
export class Pattern {
  readonly #seed: number;

  constructor(seed: number) {
    this.#seed = seed % PERIOD;
  }

  /** `length` bytes from `position` on, at most MAX_SLICE; a view, not to be written to. */
  slice(position: number, length: number): Buffer {
    const start = (this.#seed + position) % PERIOD;
    return WRAPPED.subarray(start, start + length);
  }

  /** Undefined if `chunk` is what belongs at `position`, else what is wrong with it, for a person. */
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

/** Numbers in [0, 1) that follow from a seed, so that a run can be repeated (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
