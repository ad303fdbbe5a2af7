import { begunAt, budgetReturns, type History, intervalEnds, spentToday, stamp } from "./restart-history.ts";
import type { RestartRules } from "./restart-limits.ts";
import { hasFailed, isSuperseded, outcomeOf } from "./restart-outcome.ts";
import type { RolloutDecision, WorkloadFacts } from "./workload-facts.ts";

/** The input of a check: one workload, the rules, and the time. */
interface Case {
  readonly workload: WorkloadFacts;
  readonly rules: RestartRules;
  readonly now: number;
}

type Check = (subject: Case) => RolloutDecision | undefined;

/** The facts that decide whether a workload is to be restarted at all. */
type EligibilityFacts = Pick<
  WorkloadFacts,
  "namespace" | "unrestartable" | "permitted" | "mode" | "updaters" | "staleSince"
> & { readonly stale: { readonly length: number } };

interface EligibilityCase {
  readonly workload: EligibilityFacts;
  readonly rules: Pick<RestartRules, "updaterMs">;
  readonly now: number;
}

/**
 * Checks for workloads that need no restart, or that may not be restarted. They depend only on facts that are known
 * without reading the workload.
 */
const ELIGIBILITY: ReadonlyArray<(subject: EligibilityCase) => RolloutDecision | undefined> = [
  ({ workload }) => (workload.stale.length === 0 ? inStep("in-step", "every pod has the current names") : undefined),
  followedByUpdater,
  ({ workload }) =>
    workload.mode === "none" ? left("on-change-none", "on-change is none: stale pods are only reported") : undefined,
  ({ workload }) => workload.unrestartable && stuck(workload.unrestartable.code, workload.unrestartable.text),
  ({ workload: { permitted, namespace } }) =>
    permitted
      ? undefined
      : stuck(
          "restart-not-permitted",
          `${namespace} is not in restart.namespaces or optIn.namespaces; restart the workload by hand`,
        ),
];

/** Checks whether everything is known that the later checks need. */
const KNOWLEDGE: readonly Check[] = [
  ({ workload: { state, namespace } }) =>
    state === "forbidden"
      ? stuck(
          "restart-rights-missing",
          `workloads of ${namespace} may be restarted, but the controller has no Role there: run helm upgrade now ` +
            "that the namespace exists",
        )
      : undefined,
  ({ workload }) =>
    typeof workload.state === "string" ? waiting("workload-unknown", "the workload has not been read yet") : undefined,
  ({ workload: { history } }) => (isHistory(history) ? undefined : stuck(history.code, history.text)),
];

/** Checks for reasons against a restart in the workload's state and history. */
const HISTORY: readonly Check[] = [
  ({ workload: { state } }) =>
    typeof state !== "string" && state.refusal ? stuck(state.refusal.code, state.refusal.text) : undefined,
  running,
  rejected,
  notConverged,
  alreadyTried,
  ({ workload: { state } }) =>
    typeof state !== "string" && state.unsettled !== undefined
      ? waiting("not-available", `not fully available: ${state.unsettled}`)
      : undefined,
  budget,
  interval,
];

/** Checks whether the workload is due, and whether a restart would change anything. */
const NEED: readonly Check[] = [
  debounce,
  ({ workload: { notBefore }, now }) =>
    now < notBefore
      ? waiting("look-again", "another client changed it, or it could not be read or patched", notBefore)
      : undefined,
  ({ workload: { diff } }) =>
    diff?.missing === 0 && diff.extra === 0
      ? inStep("same-names", "the pods already have what new pods would get")
      : undefined,
  ({ workload: { diff, since }, rules, now }) =>
    diff?.missing === 0 && now < since + rules.vanishedMs
      ? waiting("vanished-waiting", "names were only removed: the restart is delayed", since + rules.vanishedMs)
      : undefined,
];

const CHECKS: readonly Check[] = [...ELIGIBILITY, ...KNOWLEDGE, ...HISTORY, ...NEED];

/** The first reason against a restart of this workload; undefined if it only has to wait for its turn. */
export function checkWorkload(workload: WorkloadFacts, rules: RestartRules, now: number): RolloutDecision | undefined {
  for (const check of CHECKS) {
    const decision = check({ workload, rules, now });
    if (decision !== undefined) return decision;
  }
  return undefined;
}

/**
 * The reason why a workload is not restarted at all; undefined if that depends on its state, its history or the time.
 */
export function checkEligibility(
  workload: EligibilityFacts,
  rules: Pick<RestartRules, "updaterMs">,
  now: number,
): RolloutDecision | undefined {
  for (const check of ELIGIBILITY) {
    const decision = check({ workload, rules, now });
    if (decision !== undefined) return decision;
  }
  return undefined;
}

export function isHistory(history: WorkloadFacts["history"]): history is History {
  return Array.isArray(history);
}

/** While the updater of the pods works, the workload is not restarted, even if the updater is behind. */
function followedByUpdater({
  workload: { mode, updaters, staleSince },
  rules,
  now,
}: EligibilityCase): RolloutDecision | undefined {
  if (mode !== "live" || updaters !== "keeping") return undefined;
  const until = staleSince + rules.updaterMs;
  if (now < until) return waiting("live", "the agent on the node has not yet applied the current names", until);
  return stuck("agent-behind", "the agent on the node is alive but still has not applied the current names");
}

function running({ workload, rules, now }: Case): RolloutDecision | undefined {
  const last = lastOf(workload);
  if (last === undefined || outcomeOf(last, workload.state, rules, now) !== "running") return undefined;
  return waiting(
    "restarting",
    `a restart has been in progress since ${stamp(last.at)}`,
    begunAt(last) + rules.rolloutMs,
  );
}

/** The last restart was reverted, or its rollout failed. A later change or restart by somebody else clears this. */
function rejected({ workload, rules, now }: Case): RolloutDecision | undefined {
  const last = lastOf(workload);
  const { state } = workload;
  if (last === undefined || typeof state === "string" || isSuperseded(last, state)) return undefined;
  if (outcomeOf(last, state, rules, now) === "reverted") {
    return stuck("reverted-by-owner", "its owner reverted the restart: restart it with the tool that manages it");
  }
  if (hasFailed(last, state, rules, now)) {
    return stuck(
      "rollout-failed",
      `the rollout of ${stamp(last.at)} failed: there is no further restart until the workload is changed`,
    );
  }
  return undefined;
}

/**
 * Pods of our last restart are still stale. Either the restart was for the names that are wanted now, or the pods have
 * a revision from before the restart.
 */
function notConverged({ workload }: Case): RolloutDecision | undefined {
  const last = lastOf(workload);
  if (last === undefined || isSuperseded(last, workload.state)) return undefined;
  const mark = stamp(last.at);
  const created = workload.stale.filter(({ restartedAt }) => restartedAt === mark);
  const unchanged = created.some(({ revision = "" }) => last.from.includes(revision));
  if (created.length === 0 || !(unchanged || last.to === workload.to)) return undefined;
  return stuck("did-not-converge", `restarted at ${mark}, and its new pods still do not have the current names`);
}

/** After a restart has ended, old pods may still terminate, and new ones may not be observed yet, for this long. */
const TERMINATING_MS = 60_000;

/**
 * A workload is restarted once per revision. It is restarted again for the same revision only if its pods had that
 * revision and then another one. The record of the following restart shows this.
 */
function alreadyTried({ workload: { history, to }, now }: Case): RolloutDecision | undefined {
  if (!isHistory(history)) return undefined;
  const tried = history.findLastIndex((restart) => restart.to === to);
  const restart = history[tried];
  if (restart === undefined || history[tried + 1]?.from.includes(to)) return undefined;
  const until = begunAt(restart) + TERMINATING_MS;
  const text = `restarted for these names at ${stamp(restart.at)}`;
  if (now < until) return waiting("restarted", `${text}; its old pods are terminating`, until);
  return stuck("already-restarted", `${text}; it is not restarted for them again`);
}

function budget({ workload: { history }, rules, now }: Case): RolloutDecision | undefined {
  if (!isHistory(history) || spentToday(history, now) < rules.dailyBudget) return undefined;
  const until = budgetReturns(history, rules);
  const again = Number.isFinite(until) ? `until ${stamp(until)}` : "ever";
  return waiting("budget-spent", `${rules.dailyBudget} restarts in 24 hours: no further restart ${again}`, until);
}

function interval({ workload: { history }, rules, now }: Case): RolloutDecision | undefined {
  const until = isHistory(history) ? intervalEnds(history, rules, now) : now;
  return now < until ? waiting("interval", `restarted recently: not again until ${stamp(until)}`, until) : undefined;
}

function debounce({ workload: { since, changingSince }, rules, now }: Case): RolloutDecision | undefined {
  const until = Math.min(since + rules.debounceMs, changingSince + rules.maxDebounceMs);
  return now < until ? waiting("debouncing", "its names changed recently", until) : undefined;
}

function lastOf({ history }: WorkloadFacts) {
  return isHistory(history) ? history.at(-1) : undefined;
}

function inStep(code: string, text: string): RolloutDecision {
  return { standing: "in-step", code, text };
}

export function waiting(code: string, text: string, until?: number): RolloutDecision {
  return { standing: "waiting", code, text, ...(until === undefined ? {} : { until }) };
}

export function stuck(code: string, text: string): RolloutDecision {
  return { standing: "stuck", code, text };
}

function left(code: string, text: string): RolloutDecision {
  return { standing: "left", code, text };
}
