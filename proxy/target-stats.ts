import {
  CUT_CAUSES,
  type CutCause,
  DIAL_CAUSES,
  type DialCause,
  REFUSAL_CAUSES,
  type RefusalCause,
} from "./close-causes.ts";

/** Upper bounds of the connect latency histogram, in seconds. One more bucket counts slower connects. */
export const CONNECT_BUCKETS: readonly number[] = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5,
];

/** Counters of one target. All but `active` are monotonic. */
export interface TargetStats {
  /** Admitted clients. Includes refused clients only with cause `upstream`, `local-limit` or `client-header`. */
  accepted: number;
  active: number;
  /** Payload bytes read from clients, without the header. */
  clientBytes: number;
  /** Bytes read from the upstream. */
  upstreamBytes: number;
  readonly refused: Record<RefusalCause, number>;
  /** One per failed address, also if the dial connected to a later address. */
  readonly dialErrors: Record<DialCause, number>;
  readonly cut: Record<CutCause, number>;
  /** Non-cumulative counts per bucket. Has one entry more than CONNECT_BUCKETS. */
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

/** Records a successful connect of `seconds` in the histogram. */
export function observeConnect(stats: TargetStats, seconds: number): void {
  const found = CONNECT_BUCKETS.findIndex((bound) => seconds <= bound);
  const bucket = found === -1 ? CONNECT_BUCKETS.length : found;
  stats.connectBuckets[bucket] = (stats.connectBuckets[bucket] ?? 0) + 1;
  stats.connectSecondsSum += seconds;
}

function zeros<Key extends string>(keys: readonly Key[]): Record<Key, number> {
  return Object.fromEntries(keys.map((key) => [key, 0])) as Record<Key, number>;
}
