import { createHash } from "node:crypto";

/** A prime: buffer sizes are powers of two, so a stream that is shifted by less than this is detected at once. */
const PERIOD = 1_048_583;
const MAX_SLICE = 1024 * 1024;

/** The same bytes without any structure in every run. The start follows the end, so that a slice need not wrap. */
const TABLE = createHash("shake256", { outputLength: PERIOD }).update("a stream of bytes that are all known").digest();
const WRAPPED = Buffer.concat([TABLE, TABLE.subarray(0, MAX_SLICE)]);

/**
 * Bytes of the stream `seed` from `position` on, at most 1 MiB. A comparison with them detects lost, repeated,
 * reordered and foreign bytes at the speed of memcmp. Returns a view that must not be written to.
 */
export function patternOf(seed: number, position: number, length: number): Buffer {
  const start = (seed + position) % PERIOD;
  return WRAPPED.subarray(start, start + length);
}
