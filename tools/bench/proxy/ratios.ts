import { percentile } from "../report.ts";
import type { ProgramName } from "./programs.ts";
import { PEERS } from "./programs.ts";

/** Result of one program under one workload in one round. */
export interface Sample {
  readonly round: number;
  readonly program: ProgramName;
  /** CPU time per unit (connection, request, GB), µs; for `idle`, the memory per connection, KiB. */
  readonly cost: number;
  /** Units per second; absent for `idle`. */
  readonly rate?: number;
  /** 99th percentile of the latency, in milliseconds. */
  readonly p99?: number;
}
export type Metric = "cost" | "rate" | "p99";

/** Median and quartiles. */
export interface Spread {
  readonly median: number;
  readonly low: number;
  readonly high: number;
  readonly count: number;
}

export function spreadOf(values: readonly number[]): Spread {
  const [low, median, high] = [percentile(values, 0.25), percentile(values, 0.5), percentile(values, 0.75)];
  return { median, low, high, count: values.length };
}

export function valuesOf(samples: readonly Sample[], program: ProgramName, metric: Metric): number[] {
  return samples.filter((each) => each.program === program).flatMap((each) => each[metric] ?? []);
}

/**
 * Ratio of `ours` to `theirs` in each round that has both: other work on the machine in a round affects both equally.
 */
export function pairedRatios(
  samples: readonly Sample[],
  [ours, theirs]: readonly [ProgramName, ProgramName],
  metric: Metric,
): number[] {
  const byRound = new Map(
    samples.filter(({ program }) => program === theirs).map((each) => [each.round, each[metric]]),
  );
  return samples.flatMap((each) => {
    const [mine, other] = [each[metric], byRound.get(each.round)];
    return each.program === ours && mine !== undefined && other !== undefined ? [mine / other] : [];
  });
}

/** The peer with the best median: the least cost and latency, the highest rate. Undefined if no peer was measured. */
export function bestPeer(samples: readonly Sample[], metric: Metric): ProgramName | undefined {
  const sign = metric === "rate" ? -1 : 1;
  const medians = PEERS.map((name) => [name, sign * spreadOf(valuesOf(samples, name, metric)).median] as const);
  return medians.filter(([, value]) => !Number.isNaN(value)).sort(([, one], [, other]) => one - other)[0]?.[0];
}

/** One line of the table of goals. */
export interface Goal {
  readonly workload: string;
  readonly metric: Metric;
  readonly against: "best-peer" | "relay" | "nothing";
  readonly goal: number;
  /** Limit beyond which the result counts as missed. */
  readonly floor: number;
}

const MOST_OF_RELAY = { against: "relay", metric: "cost", goal: 1.05, floor: 1.12 } as const;

export const GOALS: readonly Goal[] = [
  { workload: "close", metric: "cost", against: "best-peer", goal: 0.95, floor: 1.05 },
  { workload: "keepalive", metric: "rate", against: "best-peer", goal: 1.05, floor: 0.95 },
  { workload: "64k", metric: "cost", against: "best-peer", goal: 0.95, floor: 1.05 },
  { workload: "bulk", metric: "cost", against: "best-peer", goal: 1, floor: 1.15 },
  ...["close", "keepalive", "64k", "bulk"].map((workload) => ({ workload, ...MOST_OF_RELAY })),
  { workload: "close", metric: "p99", against: "best-peer", goal: 1, floor: 1.1 },
  { workload: "keepalive", metric: "p99", against: "best-peer", goal: 1, floor: 1.1 },
  { workload: "idle", metric: "cost", against: "nothing", goal: 0.6, floor: 1.5 },
  { workload: "two-workers", metric: "rate", against: "nothing", goal: 1.8, floor: 1.7 },
];

export interface GoalResult extends Goal {
  /** The program for the comparison; undefined if a needed program was not measured. */
  readonly peer: ProgramName | undefined;
  readonly spread: Spread;
  readonly outcome: "goal" | "floor" | "MISSED" | "not measured";
}

/** Compares `ours` with a goal. A rate must be at least as high as the goal, any other metric at most. */
export function evaluate(goal: Goal, samples: readonly Sample[], ours: ProgramName): GoalResult {
  const peer = { "best-peer": bestPeer(samples, goal.metric), relay: "relay" as const, nothing: ours }[goal.against];
  const isRatio = goal.against !== "nothing";
  const values = isRatio
    ? peer === undefined
      ? []
      : pairedRatios(samples, [ours, peer], goal.metric)
    : valuesOf(samples, ours, goal.metric);
  const spread = spreadOf(values);
  const isMet = (limit: number): boolean => (goal.metric === "rate" ? spread.median >= limit : spread.median <= limit);
  const outcome =
    spread.count === 0 ? "not measured" : isMet(goal.goal) ? "goal" : isMet(goal.floor) ? "floor" : "MISSED";
  return { ...goal, peer: isRatio ? peer : undefined, spread, outcome };
}
