import * as v from "valibot";
import type { Reason } from "#hostmap/types.ts";
import { finite, number, object } from "#lib/errors/schemas.ts";
import { parse } from "#lib/errors/validation.ts";
import type { RestartRules } from "./restart-limits.ts";

/** The record of one restart, written before the restart. */
export interface Restart {
  /**
   * When the restart began: milliseconds since 1970, by the wall clock. Written to the template as `stamp(at)`, which
   * distinguishes this restart from any other.
   */
  readonly at: number;
  /** The same time by the monotonic clock of this process. Not recorded; undefined: use `at`. */
  readonly begun?: number | undefined;
  /** Revisions of the stale pods; an empty text for a pod that was not injected. */
  readonly from: readonly string[];
  /** The revision that the new pods should get. */
  readonly to: string;
  /** The workload just before the restart. */
  readonly uid: string;
  readonly generation: number;
  /** Undefined while the restart is in progress, or if its leader ended before it recorded the outcome. */
  readonly outcome?: "done" | "failed" | "reverted" | undefined;
}

/** The restarts of a workload, oldest first. */
export type History = readonly Restart[];

export const DAY_MS = 86_400_000;

/** When a restart began, by the clock of this process. */
export function begunAt({ at, begun }: Restart): number {
  return begun ?? at;
}

/** The annotation value on the pod template. */
export function stamp(at: number): string {
  return new Date(at).toISOString();
}

/**
 * The restarts of the last day, and always the last one: a restart that changed nothing must not be forgotten
 * overnight.
 */
export function pruned(history: History, now: number): History {
  return history.filter((each, index) => begunAt(each) > now - DAY_MS || index === history.length - 1);
}

export function spentToday(history: History, now: number): number {
  return history.filter((each) => begunAt(each) > now - DAY_MS).length;
}

/** When the interval after the last restart ends. It doubles with each restart of the last day. */
export function intervalEnds(history: History, rules: RestartRules, now: number): number {
  const last = history.at(-1);
  if (last === undefined) return Number.NEGATIVE_INFINITY;
  const doublings = Math.max(0, spentToday(history, now) - 1);
  return begunAt(last) + Math.min(rules.minIntervalMs * 2 ** doublings, rules.maxIntervalMs);
}

/** When the oldest restart of a spent budget is a day old. */
export function budgetReturns(history: History, rules: RestartRules): number {
  const oldest = history[history.length - rules.dailyBudget];
  return oldest === undefined ? Number.POSITIVE_INFINITY : begunAt(oldest) + DAY_MS;
}

/** The format of a record. A record without `version` has format 1. */
const RECORD_VERSION = 1;
/** Maximum number of recorded revisions. The pods of a workload have fewer at once, unless somebody edits them. */
const MAX_REVISIONS = 8;
/** Maximum length of a recorded revision, in characters. Real revisions have 12. */
const MAX_REVISION = 32;

const restartSchema = object({
  at: number(0, 8.64e15),
  from: v.array(v.string()),
  to: v.string(),
  uid: v.string(),
  generation: finite,
  outcome: v.optional(v.picklist(["done", "failed", "reverted"])),
});
const recordSchema = object({ workload: v.string(), restarts: v.array(restartSchema) });
const versionSchema = object({ version: v.optional(finite) });

/**
 * Encodes the record of a workload. `from` is limited, because it comes from pod annotations, and the owners of pods
 * can write anything there.
 */
export function encodeRecord(workload: string, restarts: History): string {
  const recorded = restarts.map(({ at, from, to, uid, generation, outcome }) => {
    const revisions = from.slice(0, MAX_REVISIONS).map((revision) => revision.slice(0, MAX_REVISION));
    return { at, from: revisions, to, uid, generation, outcome };
  });
  return JSON.stringify({ version: RECORD_VERSION, workload, restarts: recorded });
}

/** Reads a record. Returns a reason, never an empty history, if the record does not parse or has a later format. */
export function decodeRecord(text: string): { workload: string; restarts: History } | Reason {
  try {
    const value = JSON.parse(text);
    const { version = RECORD_VERSION } = parse(versionSchema, value);
    if (version !== RECORD_VERSION)
      return {
        code: "history-version",
        text: `the record of its restarts has format ${version}, which this release does not know`,
      };
    return parse(recordSchema, value);
  } catch {
    return { code: "history-unreadable", text: "the record of its restarts was not written by Switchback" };
  }
}
