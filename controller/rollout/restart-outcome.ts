import type { WorkloadState } from "#lib/workloads/workload-state.ts";
import { begunAt, type Restart, stamp } from "./restart-history.ts";
import type { RestartRules } from "./restart-limits.ts";
import type { WorkloadFacts } from "./workload-facts.ts";

/** After this time a sent patch has either arrived or never will, because calls end after 10 s. */
const LOST_MS = 15_000;

export type RestartOutcome = "running" | "done" | "failed" | "reverted" | "void";

/**
 * Infers the outcome of the last restart from the workload. So a new leader knows as much as the one that began it.
 *
 *   state unknown or forbidden    failed after `rolloutMs`, else running
 *   absent, or another object     done
 *   template has a later stamp    done: somebody restarted it by hand
 *   template has its stamp        done once rolled out; failed after its deadline or `rolloutMs`; else running
 *   neither, and the spec has     reverted within `revertMs`, else done: an ordinary change
 *     changed twice
 *   neither, otherwise            void once the patch cannot arrive any more, else running
 *
 * A recorded outcome stays, except that a done restart may become reverted.
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

/** Our stamp is missing. The patch is one change of the spec, and reverting it is another. */
function missingOf(last: Restart, state: WorkloadState, rules: RestartRules, now: number): RestartOutcome {
  if (state.generation >= last.generation + 2) return now - begunAt(last) < rules.revertMs ? "reverted" : "done";
  return last.outcome ?? (now - begunAt(last) >= LOST_MS ? "void" : "running");
}

/** Whether the rollout of the last restart failed, and the workload was neither restarted nor changed since. */
export function hasFailed(last: Restart, state: WorkloadFacts["state"], rules: RestartRules, now: number): boolean {
  if (typeof state === "string" || isSuperseded(last, state)) return false;
  return outcomeOf(last, state, rules, now) === "failed" && state.generation <= last.generation + 1;
}

/** Whether the workload was restarted by hand, recreated or deleted since, which clears earlier failures. */
export function isSuperseded(last: Restart, state: WorkloadFacts["state"]): boolean {
  if (typeof state === "string") return state === "absent";
  return state.uid !== last.uid || compareStamps(state.restartedAt, stamp(last.at)) > 0;
}

function rolloutOf(last: Restart, state: WorkloadState, rules: RestartRules, now: number): RestartOutcome {
  if (state.unsettled === undefined) return "done";
  return state.failed || now - begunAt(last) >= rules.rolloutMs ? "failed" : "running";
}

/**
 * How much later the first of two RFC 3339 stamps is, in milliseconds. NaN if the first one is missing or malformed,
 * so it counts neither as later nor as the same.
 */
function compareStamps(one: string | undefined, other: string): number {
  return Date.parse(one ?? "") - Date.parse(other);
}
