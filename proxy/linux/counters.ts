import {
  CUT_CAUSES,
  type CutCause,
  DIAL_CAUSES,
  type DialCause,
  REFUSAL_CAUSES,
  type RefusalCause,
} from "../close-causes.ts";
import { CONNECT_BUCKETS, newTargetStats, type TargetStats } from "../target-stats.ts";

/*
 * A target's counters in shared memory: one block of doubles per worker. Only that worker writes it; the main thread
 * reads and sums all.
 */
const ACCEPTED = 0;
const ACTIVE = 1;
const CLIENT_BYTES = 2;
const UPSTREAM_BYTES = 3;
const CONNECT_SUM = 4;
const REFUSED = 5;
const DIAL_ERRORS = REFUSED + REFUSAL_CAUSES.length;
const CUT = DIAL_ERRORS + DIAL_CAUSES.length;
const BUCKETS = CUT + CUT_CAUSES.length;
const COUNT = BUCKETS + CONNECT_BUCKETS.length + 1;

/** Shared memory for one worker's counters of one target. */
export function newCounters(): SharedArrayBuffer {
  return new SharedArrayBuffer(COUNT * Float64Array.BYTES_PER_ELEMENT);
}

/** One worker's counters of one target. */
export class Counters {
  readonly #values: Float64Array;

  constructor(block: SharedArrayBuffer) {
    this.#values = new Float64Array(block);
  }

  opened(): void {
    this.#add(ACCEPTED, 1);
    this.#add(ACTIVE, 1);
  }

  closed(): void {
    this.#add(ACTIVE, -1);
  }

  fromClient(bytes: number): void {
    this.#add(CLIENT_BYTES, bytes);
  }

  fromUpstream(bytes: number): void {
    this.#add(UPSTREAM_BYTES, bytes);
  }

  refused(cause: RefusalCause): void {
    this.#add(REFUSED + REFUSAL_CAUSES.indexOf(cause), 1);
  }

  dialFailed(cause: DialCause): void {
    this.#add(DIAL_ERRORS + DIAL_CAUSES.indexOf(cause), 1);
  }

  cut(cause: CutCause): void {
    this.#add(CUT + CUT_CAUSES.indexOf(cause), 1);
  }

  connected(seconds: number): void {
    let bucket = 0;
    while (bucket < CONNECT_BUCKETS.length && seconds > (CONNECT_BUCKETS[bucket] ?? 0)) bucket += 1;
    this.#add(BUCKETS + bucket, 1);
    this.#add(CONNECT_SUM, seconds);
  }

  #add(index: number, by: number): void {
    this.#values[index] = (this.#values[index] ?? 0) + by;
  }
}

/** The sum over all workers' blocks of one target. */
export function readCounters(blocks: readonly SharedArrayBuffer[]): TargetStats {
  const stats = newTargetStats();
  for (const block of blocks) {
    const values = new Float64Array(block);
    const at = (index: number): number => values[index] ?? 0;
    stats.accepted += at(ACCEPTED);
    stats.active += at(ACTIVE);
    stats.clientBytes += at(CLIENT_BYTES);
    stats.upstreamBytes += at(UPSTREAM_BYTES);
    stats.connectSecondsSum += at(CONNECT_SUM);
    for (const [index, cause] of REFUSAL_CAUSES.entries()) stats.refused[cause] += at(REFUSED + index);
    for (const [index, cause] of DIAL_CAUSES.entries()) stats.dialErrors[cause] += at(DIAL_ERRORS + index);
    for (const [index, cause] of CUT_CAUSES.entries()) stats.cut[cause] += at(CUT + index);
    for (const index of stats.connectBuckets.keys()) {
      stats.connectBuckets[index] = (stats.connectBuckets[index] ?? 0) + at(BUCKETS + index);
    }
  }
  return stats;
}
