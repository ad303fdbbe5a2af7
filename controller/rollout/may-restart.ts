import { planInjection } from "#hostmap/inject.ts";
import type { SelectedHosts } from "#hostmap/pod-selection.ts";
import type { HostAlias, PublishedMap } from "#hostmap/types.ts";
import type { Config } from "#lib/config/schema.ts";
import { hostAliasesOf, type RawPod } from "#lib/workloads/pods.ts";
import type { WorkloadState } from "#lib/workloads/workload-state.ts";
import { DAY_MS, type Restart, stamp } from "./restart-record.ts";
import { type Decision, stuck, type Workload, waiting } from "./workload.ts";

/** Everything that decides about a workload whose turn it is. Times are monotonic, in milliseconds. */
export interface Case {
  readonly workload: Workload;
  readonly rules: Config["restart"];
  readonly now: number;
  /** The workload as it was read just now. */
  readonly state: WorkloadState;
  /** Its restarts in the last 24 hours, oldest first. */
  readonly restarts: readonly Restart[];
  /** When the map was published, milliseconds since 1970. Undefined: not known. */
  readonly published: number | undefined;
}

const SECOND = 1_000;
/** When pods that already have their names are compared again. */
const SAME_MS = 60_000;
/** Names that change often change together. While they do, a restart waits at most this many times as long. */
const MAX_DEBOUNCES = 10;
/** How long a restart that would only remove names waits. */
const VANISHED_MS = 600_000;
/** The longest interval between two restarts that a namespace causes. */
const MAX_INTERVAL_MS = 3_600_000;

/** The first reason against a restart that is known without reading the workload. */
export function checkFacts({ stale, unfollowed, onChange, owner, listed }: Workload): Decision | undefined {
  if (stale.length === 0 && unfollowed) return { standing: "left", ...unfollowed };
  if (stale.length === 0) return inStep("every pod has the current names");
  if (onChange.mode === "none")
    return { standing: "left", code: "on-change-none", text: "on-change is none: stale pods are only reported" };
  if (owner.unrestartable) return stuck(owner.unrestartable.code, owner.unrestartable.text);
  if (listed) return undefined;
  const text = `${owner.namespace} is not in restart.namespaces or optIn.namespaces; restart the workload by hand`;
  return stuck("restart-not-permitted", text);
}

/** The first reason in the state of a workload against a restart. */
export function checkState({ workload, rules, now, state, restarts, published }: Case): Decision | undefined {
  const { refusal, unsettled, restartedAt, failed } = state;
  if (refusal !== undefined) return stuck(refusal.code, refusal.text);
  const last = restarts.at(-1);
  if (last !== undefined && last.by.length > 0 && restartedAt === stamp(last.at) && unsettled !== undefined) {
    const isOver = failed || now >= last.begun + rules.rolloutSeconds * SECOND;
    const text = `the rollout of ${stamp(last.at)} failed: ${unsettled}: no further restart until it is repaired`;
    return isOver ? stuck("rollout-failed", text) : restarting(last, unsettled);
  }
  if (proves(workload, last, published)) {
    const text = `restarted at ${restartedAt}, and its new pods still do not have the current names`;
    return stuck("did-not-converge", text);
  }
  return unsettled === undefined ? undefined : waiting("not-available", `not fully available: ${unsettled}`);
}

/** The decision while a restart is in progress. */
export function restarting({ at }: Restart, unsettled: string | undefined): Decision {
  return waiting("restarting", `a restart has been in progress since ${stamp(at)}: ${unsettled}`);
}

/**
 * Whether the restart would help and is due. Returns the namespaces that cause it, or the first reason against it. The
 * causes are those that may restart the workload now: the others ride along.
 */
export function checkNeed(subject: Case, difference: Difference): string[] | Decision {
  const { workload, rules, now } = subject;
  const debounceMs = rules.debounceSeconds * SECOND;
  const stableAt = Math.min(workload.since + debounceMs, workload.staleSince + MAX_DEBOUNCES * debounceMs);
  if (now < stableAt) return waiting("delayed", "its names changed recently", stableAt);
  if (!difference.isMissing && !difference.isExtra)
    return { ...inStep("the pods already have what new pods would get"), until: now + SAME_MS };
  const vanishedAt = workload.since + VANISHED_MS;
  if (!difference.isMissing && now < vanishedAt)
    return waiting("delayed", "its names were only removed: the restart is delayed", vanishedAt);
  return allowance(subject, difference);
}

/** A pod proves something about a restart only if it was created within this time of it. */
const OF_RESTART_MS = 600_000;
/** By then, every webhook replica has the published map: they load it within a second. */
const LOADED_MS = 25_000;

/**
 * A stale pod that our last restart created proves that a restart does not help, unless a webhook replica may still
 * have had the map before. Its creation and the two other times are by the clocks of the API server and of leaders: if
 * these differ much, nothing is proven, and the budget ends the restarts.
 */
export function proves(
  { stale }: Pick<Workload, "stale">,
  last: Restart | undefined,
  published: number | undefined,
): boolean {
  if (last === undefined || last.by.length === 0 || published === undefined) return false;
  return stale.some(
    ({ restartedAt, created }) =>
      restartedAt === stamp(last.at) && Math.abs(created - last.at) <= OF_RESTART_MS && created > published + LOADED_MS,
  );
}

/** Restarts of a day that are left for namespaces that caused none, if several hold names. */
const RESERVED = 2;

/**
 * The budget of a workload, shared by the namespaces whose names cause its restarts. A namespace waits an interval,
 * which doubles with each restart that it caused in the last day. If several namespaces hold names, the last two
 * restarts of a day are for those that caused none.
 */
function allowance({ restarts, rules, now, state }: Case, { causes, shared }: Difference): string[] | Decision {
  const { minIntervalSeconds, dailyBudget } = rules;
  const spent = restarts.filter(({ by }) => by.length > 0);
  const dayAfter = (restart: Restart | undefined) => (restart?.begun ?? now) + DAY_MS;
  const isReserved = shared && spent.length >= dailyBudget - RESERVED;
  const untilOf = (cause: string): number => {
    const own = spent.filter(({ by }) => by.includes(cause));
    const last = own.at(-1);
    if (spent.length >= dailyBudget) return dayAfter(spent[spent.length - dailyBudget]);
    if (last === undefined) return 0;
    if (isReserved) return dayAfter(spent[0]);
    return last.begun + Math.min(minIntervalSeconds * SECOND * 2 ** (own.length - 1), MAX_INTERVAL_MS);
  };
  const soonest = Math.min(...causes.map(untilOf));
  const wait = (until: number) => `no further restart for ${inMinutes(until - now)}`;
  if (soonest > now && (isReserved || spent.length >= dailyBudget)) {
    const isUndone = spent.length > 0 && state.restartedAt !== stamp(spent.at(-1)?.at ?? 0);
    const undone = isUndone ? "; somebody put the template back after the last one" : "";
    const others = spent.length < dailyBudget ? ", and the last ones are for other namespaces" : "";
    return waiting("budget-spent", `${spent.length} restarts in 24 hours${others}: ${wait(soonest)}${undone}`, soonest);
  }
  const until = Math.max(soonest, (restarts.at(-1)?.begun ?? 0) + minIntervalSeconds * SECOND);
  if (until > now) return waiting("delayed", `restarted recently: ${wait(until)}`, until);
  return causes.filter((cause) => untilOf(cause) <= now);
}

function inStep(text: string): Decision {
  return { standing: "in-step", code: "in-step", text };
}

function inMinutes(ms: number): string {
  const minutes = Math.ceil(ms / 60_000);
  return minutes > 120 ? `${Math.ceil(minutes / 60)} h` : `${minutes} min`;
}

/** What a restart would change. */
export type Difference = ReturnType<typeof differenceOf>;

/**
 * Compares the hosts lines of a pod with those of a new one. A different or missing revision only shows that they may
 * differ: forging or removing the annotation changes no line. A name that is leaving the map still has its holder.
 */
export function differenceOf(pod: RawPod, selected: SelectedHosts, { lines }: PublishedMap) {
  const holders = (names: readonly string[]) => new Set(names.map((name) => lines.get(name)?.holder ?? ""));
  const [hostAliases, annotations] = [hostAliasesOf(pod), pod.metadata?.annotations ?? {}];
  const { userAliases, managed } = planInjection({ hostAliases, annotations }, selected);
  const [has, should] = [linesOf(hostAliases), linesOf([...userAliases, ...managed.aliases])];
  const [missing, extra] = [[...should.difference(has)], [...has.difference(should)]];
  const changed = (missing.length > 0 ? missing : extra).map((line) => line.slice(line.indexOf(" ") + 1));
  return {
    isMissing: missing.length > 0,
    isExtra: extra.length > 0,
    /** The namespaces that hold the missing names, or the extra ones if no name is missing. Sorted. */
    causes: [...holders(changed)].sort(),
    /** Whether several namespaces hold the names that the pod selects. */
    shared: holders(selected.names).size > 1,
  };
}

function linesOf(aliases: readonly HostAlias[]): Set<string> {
  return new Set(aliases.flatMap(({ ip, hostnames }) => hostnames.map((name) => `${ip} ${name.toLowerCase()}`)));
}
