import { budgetReturns, type History, intervalEnds, spentToday, stamp } from "./restart-history.ts";
import { hasFailed, isSuperseded, outcomeOf } from "./restart-outcome.ts";
import type { RestartRules } from "./restart-rules.ts";
import type { RolloutVerdict, WorkloadFacts } from "./workload-facts.ts";

/** What a check sees: one workload, the rules, the time. */
interface Case {
  readonly workload: WorkloadFacts;
  readonly rules: RestartRules;
  readonly now: number;
}

type Check = (subject: Case) => RolloutVerdict | undefined;

/** Nobody has to do anything about it, or nothing can be done here. */
const STANDING: readonly Check[] = [
  ({ workload }) => (workload.stale.length === 0 ? inStep("in-step", "every pod has the current names") : undefined),
  kept,
  ({ workload }) => (workload.mode === "none" ? left("on-change-none", "on-change is none: only reported") : undefined),
  ({ workload }) => workload.unrestartable && stuck(workload.unrestartable.code, workload.unrestartable.text),
  ({ workload: { permitted, namespace } }) =>
    permitted
      ? undefined
      : stuck("restart-not-permitted", `${namespace} is not among restart.namespaces; restart it by hand`),
  ({ workload }) =>
    typeof workload.state === "string"
      ? waiting("workload-unknown", "the workload has not been read yet: it may not be readable")
      : undefined,
  ({ workload: { history } }) => (isHistory(history) ? undefined : stuck(history.code, history.text)),
];

/** What its own past and present say against a restart. */
const PAST: readonly Check[] = [
  ({ workload: { state } }) =>
    typeof state !== "string" && state.refusal ? stuck(state.refusal.code, state.refusal.text) : undefined,
  running,
  notWanted,
  notConverged,
  alreadyTried,
  ({ workload: { state } }) =>
    typeof state !== "string" && state.unsettled !== undefined
      ? waiting("not-available", `not fully available: ${state.unsettled}`)
      : undefined,
  budget,
  interval,
];

/** Whether it is time, and whether there is anything to gain. */
const NEED: readonly Check[] = [
  debounce,
  ({ workload: { notBefore }, now }) =>
    now < notBefore
      ? waiting("look-again", "somebody else changed it, or it could not be read or patched", notBefore)
      : undefined,
  ({ workload: { diff } }) =>
    diff?.missing === 0 && diff.extra === 0 ? inStep("same-names", "the pods have what new ones would get") : undefined,
  ({ workload: { diff, since }, rules, now }) =>
    diff?.missing === 0 && now < since + rules.vanishedMs
      ? waiting("vanished-waiting", "names went away and none came: a restart for that waits", since + rules.vanishedMs)
      : undefined,
];

const CHECKS: readonly Check[] = [...STANDING, ...PAST, ...NEED];

/** The first reason against a restart of this workload by itself; undefined: nothing but its turn. */
export function checkWorkload(workload: WorkloadFacts, rules: RestartRules, now: number): RolloutVerdict | undefined {
  for (const check of CHECKS) {
    const verdict = check({ workload, rules, now });
    if (verdict !== undefined) return verdict;
  }
  return undefined;
}

export function isHistory(history: WorkloadFacts["history"]): history is History {
  return Array.isArray(history);
}

/** The agent of the pods' node is at work: nothing is restarted, however long it takes. */
function kept({ workload: { mode, agents, staleSince }, rules, now }: Case): RolloutVerdict | undefined {
  if (mode !== "live" || agents !== "keeping") return undefined;
  const until = staleSince + rules.agentMs;
  if (now < until) return waiting("live", "the agent on the node has not yet applied the current names", until);
  return stuck("agent-behind", "the agent on the node is alive, and still has not applied the current names");
}

function running({ workload, rules, now }: Case): RolloutVerdict | undefined {
  const last = lastOf(workload);
  if (last === undefined || outcomeOf(last, workload.state, rules, now) !== "running") return undefined;
  return waiting("restarting", `being restarted since ${stamp(last.at)}`, last.at + rules.rolloutMs);
}

/** The owner, or its controller, has said no. Somebody's own change or restart clears it. */
function notWanted({ workload, rules, now }: Case): RolloutVerdict | undefined {
  const last = lastOf(workload);
  const { state } = workload;
  if (last === undefined || typeof state === "string" || isSuperseded(last, state)) return undefined;
  if (outcomeOf(last, state, rules, now) === "reverted") {
    return stuck("reverted-by-owner", "its owner took our restart back: restart it by whatever manages it");
  }
  if (hasFailed(last, state, rules, now)) {
    return stuck(
      "rollout-failed",
      `the rollout of ${stamp(last.at)} failed: nothing more is tried until somebody changes it`,
    );
  }
  return undefined;
}

/** Pods of our last restart that are still stale: for the same names, or with just what those before them had. */
function notConverged({ workload }: Case): RolloutVerdict | undefined {
  const last = lastOf(workload);
  if (last === undefined || isSuperseded(last, workload.state)) return undefined;
  const mark = stamp(last.at);
  const young = workload.stale.filter(({ restartedAt }) => restartedAt === mark);
  const unchanged = young.some(({ revision = "" }) => last.from.includes(revision));
  if (young.length === 0 || !(unchanged || last.to === workload.to)) return undefined;
  return stuck("did-not-converge", `restarted at ${mark}, and its new pods still have not the names they should have`);
}

/** For how long old pods may still be leaving, and new ones not yet be seen, after a restart is done. */
const LEAVING_MS = 60_000;

/**
 * A workload is restarted once for a revision. Only if its pods had that revision and then another (the restart after it tells what
 * they had), it may be needed again.
 */
function alreadyTried({ workload: { history, to }, now }: Case): RolloutVerdict | undefined {
  if (!isHistory(history)) return undefined;
  const tried = history.findLastIndex((restart) => restart.to === to);
  const restart = history[tried];
  if (restart === undefined || history[tried + 1]?.from.includes(to)) return undefined;
  const until = restart.at + LEAVING_MS;
  const text = `restarted for these names at ${stamp(restart.at)}`;
  if (now < until) return waiting("restarted", `${text}; its old pods are leaving`, until);
  return stuck("already-restarted", `${text}; not a second time`);
}

function budget({ workload: { history }, rules, now }: Case): RolloutVerdict | undefined {
  if (!isHistory(history) || spentToday(history, now) < rules.dailyBudget) return undefined;
  const until = budgetReturns(history, rules, now);
  const again = Number.isFinite(until) ? `until ${stamp(until)}` : "ever";
  return waiting("budget-spent", `${rules.dailyBudget} restarts in 24 hours: no more ${again}`, until);
}

function interval({ workload: { history }, rules, now }: Case): RolloutVerdict | undefined {
  const until = isHistory(history) ? intervalEnds(history, rules, now) : now;
  return now < until
    ? waiting("interval", `restarted a short while ago: not again until ${stamp(until)}`, until)
    : undefined;
}

function debounce({ workload: { since, changingSince }, rules, now }: Case): RolloutVerdict | undefined {
  const until = Math.min(since + rules.debounceMs, changingSince + rules.maxDebounceMs);
  return now < until ? waiting("debouncing", "its names changed a moment ago", until) : undefined;
}

function lastOf({ history }: WorkloadFacts) {
  return isHistory(history) ? history.at(-1) : undefined;
}

function inStep(code: string, text: string): RolloutVerdict {
  return { standing: "in-step", code, text };
}

export function waiting(code: string, text: string, until?: number): RolloutVerdict {
  return { standing: "waiting", code, text, ...(until === undefined ? {} : { until }) };
}

export function stuck(code: string, text: string): RolloutVerdict {
  return { standing: "stuck", code, text };
}

function left(code: string, text: string): RolloutVerdict {
  return { standing: "left", code, text };
}
