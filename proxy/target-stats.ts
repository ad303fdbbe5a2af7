import {
  CUT_CAUSES,
  type CutCause,
  DIAL_CAUSES,
  type DialCause,
  REFUSAL_CAUSES,
  type RefusalCause,
} from "./close-causes.ts";

/** Upper bounds in seconds of the connect latency histogram; one more bucket takes what is slower. */
export const CONNECT_BUCKETS: readonly number[] = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5,
];

/** Plain counters of one target. All but `active` only ever grow. */
export interface TargetStats {
  /** Clients taken in; the refused are not among them, save those with cause `upstream` or `local-limit`. */
  accepted: number;
  active: number;
  /** Payload bytes read from clients, the header not counted. */
  clientBytes: number;
  /** Bytes read from the upstream. */
  upstreamBytes: number;
  readonly refused: Record<RefusalCause, number>;
  /** One an address that failed: a dial that reached its second address counts here too. */
  readonly dialErrors: Record<DialCause, number>;
  readonly cut: Record<CutCause, number>;
  /** Counts of each bucket by itself (not cumulative), as long as CONNECT_BUCKETS and one. */
  readonly connectBuckets: number[];
  connectSecondsSum: number;
}

export function newTargetStats(): TargetStats {
  return {
    accepted: 0,
    active: 0,
    clientBytes: 0,
    upstreamBytes: 0,
    refused: zeros(REFUSAL_CAUSES),
    dialErrors: zeros(DIAL_CAUSES),
    cut: zeros(CUT_CAUSES),
    connectBuckets: new Array<number>(CONNECT_BUCKETS.length + 1).fill(0),
    connectSecondsSum: 0,
  };
}

/** Enters one successful connect of `seconds` into the histogram. */
export function observeConnect(stats: TargetStats, seconds: number): void {
  const found = CONNECT_BUCKETS.findIndex((bound) => seconds <= bound);
  const bucket = found === -1 ? CONNECT_BUCKETS.length : found;
  stats.connectBuckets[bucket] = (stats.connectBuckets[bucket] ?? 0) + 1;
  stats.connectSecondsSum += seconds;
}

function zeros<Key extends string>(keys: readonly Key[]): Record<Key, number> {
  return Object.fromEntries(keys.map((key) => [key, 0])) as Record<Key, number>;
}
