import type { WorkloadState } from "#lib/workloads/workload-state.ts";
import { begunAt, type Restart, stamp } from "./restart-history.ts";
import type { RestartRules } from "./restart-limits.ts";
import type { WorkloadFacts } from "./workload-facts.ts";

/** After this time a patch that was sent has either arrived or never will: calls end after 10 s. */
const LOST_MS = 15_000;

export type RestartOutcome = "running" | "done" | "failed" | "reverted" | "void";

/**
 * Infers the outcome of the last restart from the workload, so that a new leader knows as much as the one that
 * began it.
 *
 *   template carries its stamp        rolled out: done; deadline exceeded: failed; else running a later stamp (by
 *   hand)           done an earlier one or none, and the   `reverted` if soon enough, else an ordinary change
 *     spec has changed twice
 *   the same, spec not changed twice  the patch never arrived: void, once it cannot any more
 */
export function outcomeOf(
  last: Restart,
  state: WorkloadFacts["state"],
  rules: RestartRules,
  now: number,
): RestartOutcome {
  if (last.outcome === "failed" || last.outcome === "reverted") return last.outcome;
  if (state === "unknown" || state === "forbidden")
    return last.outcome ?? (now - begunAt(last) >= rules.rolloutMs ? "failed" : "running");
  if (state === "absent" || state.uid !== last.uid) return "done";
  const order = compareStamps(state.restartedAt, stamp(last.at));
  if (order > 0) return "done";
  if (order === 0) return last.outcome ?? rolloutOf(last, state, rules, now);
  return missingOf(last, state, rules, now);
}

/** The stamp is missing: the patch is one change of the spec, reverting it is another. */
function missingOf(last: Restart, state: WorkloadState, rules: RestartRules, now: number): RestartOutcome {
  if (state.generation >= last.generation + 2) return now - begunAt(last) < rules.revertMs ? "reverted" : "done";
  return last.outcome ?? (now - begunAt(last) >= LOST_MS ? "void" : "running");
}

/** Whether the rollout of the last restart failed and the workload was neither restarted nor changed since. */
export function hasFailed(last: Restart, state: WorkloadFacts["state"], rules: RestartRules, now: number): boolean {
  if (typeof state === "string" || isSuperseded(last, state)) return false;
  return outcomeOf(last, state, rules, now) === "failed" && state.generation <= last.generation + 1;
}

/** Whether the workload was restarted by hand since, which clears earlier failures. */
export function isSuperseded(last: Restart, state: WorkloadFacts["state"]): boolean {
  if (typeof state === "string") return state === "absent";
  return state.uid !== last.uid || compareStamps(state.restartedAt, stamp(last.at)) > 0;
}

function rolloutOf(last: Restart, state: WorkloadState, rules: RestartRules, now: number): RestartOutcome {
  if (state.unsettled === undefined) return "done";
  return state.failed || now - begunAt(last) >= rules.rolloutMs ? "failed" : "running";
}

/**
 * How much later the first of two RFC 3339 stamps is, in milliseconds. NaN if it is missing or malformed: neither
 * later nor the same.
 */
function compareStamps(one: string | undefined, other: string): number {
  return Date.parse(one ?? "") - Date.parse(other);
}
