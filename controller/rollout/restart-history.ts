import { z } from "zod";
import type { Reason } from "../../hostmap/types.ts";
import type { RestartRules } from "./restart-limits.ts";

/** The record of one restart, written before the restart. */
export interface Restart {
  /** Milliseconds since 1970. Written to the template as `stamp(at)`, which distinguishes this restart from any other. */
  readonly at: number;
  /** Revisions of the stale pods; empty for a pod that was not injected. */
  readonly from: readonly string[];
  /** The revision that the new pods should get. */
  readonly to: string;
  /** The workload just before the restart. */
  readonly uid: string;
  readonly generation: number;
  /** Undefined while the restart is in progress, or if its leader ended before it recorded the outcome. */
  readonly outcome?: "done" | "failed" | "reverted" | undefined;
}

/** Oldest first. */
export type History = readonly Restart[];

export const DAY_MS = 86_400_000;

/** The annotation value on the pod template. */
export function stamp(at: number): string {
  return new Date(at).toISOString();
}

/** The restarts of the last day, and the last one however old it is: a restart that changed nothing is not forgotten overnight. */
export function pruned(history: History, now: number): History {
  return history.filter(({ at }, index) => at > now - DAY_MS || index === history.length - 1);
}

export function spentToday(history: History, now: number): number {
  return history.filter(({ at }) => at > now - DAY_MS).length;
}

/** When the interval after the last restart ends. It doubles with each restart of the last day. */
export function intervalEnds(history: History, rules: RestartRules, now: number): number {
  const last = history.at(-1);
  if (last === undefined) return Number.NEGATIVE_INFINITY;
  const doublings = Math.max(0, spentToday(history, now) - 1);
  return last.at + Math.min(rules.minIntervalMs * 2 ** doublings, rules.maxIntervalMs);
}

/** When the oldest restart of a spent budget is a day old. */
export function budgetReturns(history: History, rules: RestartRules, now: number): number {
  const today = history.filter(({ at }) => at > now - DAY_MS);
  const oldest = today[today.length - rules.dailyBudget];
  return oldest === undefined ? Number.POSITIVE_INFINITY : oldest.at + DAY_MS;
}

const restartSchema = z.object({
  at: z.number().min(0).max(8.64e15),
  from: z.array(z.string()),
  to: z.string(),
  uid: z.string(),
  generation: z.number(),
  outcome: z.enum(["done", "failed", "reverted"]).optional(),
});
const recordSchema = z.object({ workload: z.string(), restarts: z.array(restartSchema) });

/** A workload's record as text. */
export function encodeRecord(workload: string, restarts: History): string {
  return JSON.stringify({ workload, restarts });
}

/** Reads a record. One that does not parse gives a reason, never an empty history. */
export function decodeRecord(text: string): { workload: string; restarts: History } | Reason {
  try {
    return recordSchema.parse(JSON.parse(text));
  } catch {
    return { code: "history-unreadable", text: "the record of its restarts was not written by Switchback" };
  }
}
