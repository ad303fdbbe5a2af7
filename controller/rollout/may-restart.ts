import type { WorkloadState } from "#lib/workloads/workload-state.ts";
import type { Difference } from "./difference.ts";
import { DAY_MS, type Restart, stamp } from "./restart-record.ts";
import { type Decision, inStep, type RestartRules, stuck, type Workload, waiting } from "./workload.ts";

/** Everything that decides about a workload whose turn it is. Times are monotonic, in milliseconds. */
export interface Case {
  readonly workload: Workload;
  readonly rules: RestartRules;
  readonly now: number;
  /** The workload as it was read just now. */
  readonly state: WorkloadState;
  /** Its restarts in the last 24 hours, oldest first. */
  readonly restarts: readonly Restart[];
  /** When the map was published, milliseconds since 1970. Undefined: not known. */
  readonly published: number | undefined;
}

const SECOND = 1_000;

type FactsCheck = (workload: Workload) => Decision | undefined;
type Check = (subject: Case) => Decision | undefined;

/** Checks of what is known without reading the workload. */
const FACTS: readonly FactsCheck[] = [
  ({ stale, unfollowed }) => (stale.length === 0 && unfollowed ? { standing: "left", ...unfollowed } : undefined),
  ({ stale }) => (stale.length === 0 ? inStep("every pod has the current names") : undefined),
  ({ onChange }) =>
    onChange.mode === "none"
      ? { standing: "left", code: "on-change-none", text: "on-change is none: stale pods are only reported" }
      : undefined,
  ({ agent }) =>
    agent === "unknown" ? waiting("live", "nobody knows yet whether an agent serves the node of a pod") : undefined,
  ({ agent }) =>
    agent === "problem" ? stuck("live", "the agent on the node cannot write the hosts file of a pod") : undefined,
  ({ owner: { unrestartable } }) => unrestartable && stuck(unrestartable.code, unrestartable.text),
  ({ listed, owner: { namespace } }) => {
    const text = `${namespace} is not in restart.namespaces or optIn.namespaces; restart the workload by hand`;
    return listed ? undefined : stuck("restart-not-permitted", text);
  },
];

/** Checks of the workload as it was read. */
const STATE: readonly Check[] = [
  ({ state: { refusal } }) => refusal && stuck(refusal.code, refusal.text),
  restarting,
  rolloutFailed,
  ({ workload, restarts, published }) => {
    const proof = proves(workload, restarts, published);
    return proof === undefined ? undefined : stuck("did-not-converge", proof);
  },
  ({ state: { unsettled } }) =>
    unsettled === undefined ? undefined : waiting("not-available", `not fully available: ${unsettled}`),
  oldPods,
];

/** The reason why nothing but the pods and their namespace decides about a workload. */
export function checkFacts(workload: Workload): Decision | undefined {
  return first(FACTS, workload);
}

/** The decision about a workload that the controller may not read or restart. */
export function rightsMissing(text: string): Decision {
  return stuck("restart-rights-missing", text);
}

/** Names that change often change together: a restart waits until they are stable, but not for ever. */
export function checkDebounce(workload: Workload, rules: RestartRules, now: number): Decision | undefined {
  const until = Math.min(
    workload.since + rules.debounceSeconds * SECOND,
    workload.changingSince + Math.max(rules.debounceSeconds, rules.maxDebounceSeconds) * SECOND,
  );
  return now < until ? waiting("debouncing", "its names changed recently", until) : undefined;
}

/** The first reason in the state of a workload against a restart. */
export function checkState(subject: Case): Decision | undefined {
  return first(STATE, subject);
}

/**
 * Whether the restart would help and is due. Returns the namespaces that cause it, or the first reason against it. The
 * causes are those that may restart the workload now: the others ride along.
 */
export function checkNeed(subject: Case, difference: Difference): readonly string[] | Decision {
  const { workload, rules, now } = subject;
  const { missing, extra } = difference;
  if (missing === 0 && extra === 0) return inStep("the pods already have what new pods would get");
  const vanishedAt = workload.since + rules.vanishedSeconds * SECOND;
  if (missing === 0 && now < vanishedAt)
    return waiting("debouncing", "its names were only removed: the restart is delayed", vanishedAt);
  return allowance(subject, difference);
}

export function isDecision(result: readonly string[] | Decision): result is Decision {
  return "standing" in result;
}

function first<T>(checks: ReadonlyArray<(subject: T) => Decision | undefined>, subject: T): Decision | undefined {
  for (const check of checks) {
    const decision = check(subject);
    if (decision !== undefined) return decision;
  }
  return undefined;
}

/** Whether the template has the stamp of our last restart, and the rollout is not complete. */
function isOurs({ state, restarts }: Case): Restart | undefined {
  const last = restarts.at(-1);
  const isLast = last !== undefined && last.by.length > 0 && state.restartedAt === stamp(last.at);
  return isLast && state.unsettled !== undefined ? last : undefined;
}

function restarting(subject: Case): Decision | undefined {
  const last = isOurs(subject);
  const { rules, now, state } = subject;
  if (last === undefined || state.failed || now >= last.begun + rules.rolloutSeconds * SECOND) return undefined;
  return waiting("restarting", `a restart has been in progress since ${stamp(last.at)}: ${state.unsettled}`);
}

/** It ends when every replica is available again: by a change, by a restart, or by itself. */
function rolloutFailed(subject: Case): Decision | undefined {
  const last = isOurs(subject);
  const text = `the rollout of ${last && stamp(last.at)} failed: ${subject.state.unsettled}`;
  return last && stuck("rollout-failed", `${text}: there is no further restart until it is repaired`);
}

/** A pod proves something about a restart only if it was created within this time of it. */
const OF_RESTART_MS = 600_000;
/** By then, every webhook replica has the published map. A restart that has to prove something waits longer. */
const LOADED_MS = 60_000;
const MARGIN_MS = 5_000;

/**
 * A stale pod that our last restart created proves that a restart does not help, unless a webhook replica may still
 * have had the map before. Its creation and the two other times are by the clocks of the API server and of leaders: if
 * these differ much, nothing is proven, and the budget ends the restarts.
 */
export function proves(
  { stale }: Pick<Workload, "stale">,
  restarts: readonly Restart[],
  published: number | undefined,
): string | undefined {
  const last = restarts.at(-1);
  if (last === undefined || last.by.length === 0 || published === undefined) return undefined;
  const pod = stale.find(
    ({ restartedAt, created }) =>
      restartedAt === stamp(last.at) && Math.abs(created - last.at) <= OF_RESTART_MS && created > published + LOADED_MS,
  );
  return pod && `restarted at ${stamp(last.at)}, and its new pods still do not have the current names`;
}

/** How long old pods may take to end, and new ones to be seen, after a rollout is complete. */
const ENDING_MS = 60_000;

/** After a restart, pods from before it do not ask for another one. */
function oldPods({ workload, restarts, state, now }: Case): Decision | undefined {
  const last = restarts.at(-1);
  if (last === undefined || now >= last.begun + ENDING_MS || state.restartedAt !== stamp(last.at)) return undefined;
  const isOld = workload.stale.every(({ restartedAt }) => restartedAt !== stamp(last.at));
  return isOld ? waiting("restarting", `restarted at ${stamp(last.at)}; its old pods are ending`) : undefined;
}

/** Restarts of a day that are left for namespaces that caused none, if several hold names. */
const RESERVED = 2;

/**
 * The budget of a workload, shared by the namespaces whose names cause its restarts. A namespace waits an interval,
 * which doubles with each restart that it caused in the last day. If several namespaces hold names, the last two
 * restarts of a day are for those that caused none.
 */
function allowance({ restarts, rules, now, state, workload, published }: Case, { causes, shared }: Difference) {
  const { minIntervalSeconds, maxIntervalSeconds, dailyBudget } = rules;
  const spent = restarts.filter(({ by }) => by.length > 0);
  const isUndone = spent.length > 0 && state.restartedAt !== stamp(spent.at(-1)?.at ?? 0);
  const budgetSpent = (until: number, whose = ""): Decision => {
    const undone = isUndone ? "; somebody put the template back after the last one" : "";
    const wait = inMinutes(until - now);
    const text = `${spent.length} restarts in 24 hours${whose}: no further restart for ${wait}${undone}`;
    return waiting("budget-spent", text, until);
  };
  const returns = spent[spent.length - dailyBudget];
  if (dailyBudget === 0) return stuck("budget-spent", "restart.dailyBudget is 0");
  if (returns !== undefined) return budgetSpent(returns.begun + DAY_MS);
  const isReserved = shared && spent.length >= dailyBudget - RESERVED;
  const terms = causes.map((cause) => {
    const own = spent.filter(({ by }) => by.includes(cause));
    const [oldest, last] = [own[0], own.at(-1)];
    if (oldest === undefined || last === undefined) return { cause, until: 0, isSpent: false };
    if (isReserved) return { cause, until: (spent[0] ?? oldest).begun + DAY_MS, isSpent: true };
    return {
      cause,
      until: last.begun + Math.min(minIntervalSeconds * 2 ** (own.length - 1), maxIntervalSeconds) * SECOND,
      isSpent: false,
    };
  });
  const soonest = terms.reduce((one, other) => (other.until < one.until ? other : one));
  if (soonest.until > now && soonest.isSpent)
    return budgetSpent(
      soonest.until,
      `, some for ${soonest.cause || "the same names"}, and the last two are for others`,
    );
  const until = Math.max(soonest.until, (restarts.at(-1)?.begun ?? 0) + minIntervalSeconds * SECOND, afterLoading());
  if (until > now) return waiting("interval", `restarted recently: not again for ${inMinutes(until - now)}`, until);
  return terms.filter((term) => term.until <= now).map(({ cause }) => cause);

  /** A pod of the last restart may be stale because a webhook replica was behind. The next one has to prove it. */
  function afterLoading(): number {
    const last = restarts.at(-1);
    if (last === undefined || published === undefined || last.at < published) return 0;
    const isOfLast = workload.stale.some(({ restartedAt }) => restartedAt === stamp(last.at));
    return isOfLast ? last.begun - last.at + published + LOADED_MS + MARGIN_MS : 0;
  }
}

function inMinutes(ms: number): string {
  const minutes = Math.ceil(ms / 60_000);
  return minutes > 120 ? `${Math.ceil(minutes / 60)} h` : `${minutes} min`;
}
