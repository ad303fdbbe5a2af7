import { planInjection } from "#hostmap/inject.ts";
import { HOSTS_KEY } from "#hostmap/metadata-keys.ts";
import type { createSelector } from "#hostmap/pod-selection.ts";
import type { HostAlias } from "#hostmap/types.ts";
import type { Config } from "#lib/config/schema.ts";
import { notPermitted } from "#lib/workloads/owners.ts";
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
}

/** When pods that already have their names are compared again. */
const SAME_MS = 60_000;
/** A workload is restarted after its names have been stable for this long: changes come in groups. */
const DEBOUNCE_MS = 2_000;
/** A name that was removed causes a restart after its workload's names have been stable for this long. */
const VANISHED_MS = 600_000;
/** Names that change often change together. While they do, a restart waits at most this many times as long. */
const MAX_WAITS = 10;
/** The longest interval between two restarts that a namespace causes. */
const MAX_INTERVAL_MS = 3_600_000;

const IN_STEP: Decision = { standing: "in-step", code: "in-step", text: "every pod has the current names" };

/** The first reason against a restart that is known without reading the workload. */
export function checkFacts({ stale, unfollowed, onChange, owner, listed }: Workload): Decision | undefined {
  if (stale.length === 0 && unfollowed) return { standing: "left", ...unfollowed };
  if (stale.length === 0) return IN_STEP;
  if (onChange.mode === "none")
    return { standing: "left", code: "on-change-none", text: "on-change is none: stale pods are only reported" };
  if (owner.unrestartable) return stuck(owner.unrestartable.code, owner.unrestartable.text);
  return listed ? undefined : { standing: "stuck", ...notPermitted(owner.namespace) };
}

/** The first reason in the state of a workload against a restart. */
export function checkState(subject: Case): Decision | undefined {
  const { rules, now, state, restarts } = subject;
  const { refusal, unsettled, restartedAt, failed } = state;
  if (refusal !== undefined) return stuck(refusal.code, refusal.text);
  const last = restarts.at(-1);
  const isOurs = last !== undefined && last.by.length > 0 && restartedAt === stamp(last.at);
  if (isOurs && unsettled !== undefined && last.at !== subject.workload.completed) {
    const text = `the rollout of ${stamp(last.at)} failed: ${unsettled}: no further restart until it is repaired`;
    if (failed || now >= last.begun + rules.rolloutSeconds * 1_000) return stuck("rollout-failed", text);
  }
  if (last !== undefined && isInVain(subject.workload, last))
    return stuck("did-not-converge", `restarted at ${stamp(last.at)}, and its new pods still lack the names`);
  return unsettled === undefined ? undefined : waiting("not-available", `not fully available: ${unsettled}`);
}

/**
 * Whether the restart would help and is due. Returns the namespaces that cause it, or the first reason against it. The
 * causes are those that may restart the workload now: the others ride along.
 */
export function checkNeed(subject: Case, difference: Difference): string[] | Decision {
  const { workload, now } = subject;
  const { missing, extra } = difference;
  const stableFor = (ms: number) => Math.min(workload.since + ms, workload.staleSince + MAX_WAITS * ms);
  const [stableAt, vanishedAt] = [stableFor(DEBOUNCE_MS), stableFor(VANISHED_MS)];
  if (now < stableAt) return waiting("delayed", "its names changed recently", stableAt);
  if (missing.length === 0 && extra.length === 0) return { ...IN_STEP, until: now + SAME_MS };
  if (missing.length === 0 && now < vanishedAt)
    return waiting("delayed", "its names were only removed: the restart is delayed", vanishedAt);
  return allowance(subject, difference, vanishedAt);
}

/** A pod proves something about a restart only if it was created within this time of it. */
const OF_RESTART_MS = 600_000;

/**
 * Whether a restart did not help: a stale pod that it created proves it, until the names of the workload change.
 * Undefined: this pod proves nothing. Its creation is by the clock of the API server: if the clocks differ much, no
 * pod counts, and the budget ends the restarts.
 */
export function isInVain({ stale, to }: Pick<Workload, "stale" | "to">, last: Pick<Restart, "at" | "to">) {
  const isLacking = stale.some(
    ({ restartedAt, created }) => restartedAt === stamp(last.at) && Math.abs(created - last.at) <= OF_RESTART_MS,
  );
  return isLacking && last.to !== to ? undefined : isLacking;
}

/** Restarts of a day that are left for namespaces that caused none, if several hold names. */
const RESERVED = 2;

/**
 * The budget of a workload, shared by the namespaces whose names cause its restarts. A namespace waits an interval,
 * which doubles with each restart that it caused in the last day. If several namespaces hold names, the last two
 * restarts of a day are for those that caused none. `vanishedAt`: when removed names are a cause, too.
 */
function allowance({ restarts, rules, now, state }: Case, { missing, extra, shared }: Difference, vanishedAt: number) {
  const { minIntervalSeconds, dailyBudget } = rules;
  const spent = restarts.filter(({ by }) => by.length > 0);
  const dayAfter = (restart: Restart | undefined) => (restart?.begun ?? now) + DAY_MS;
  const isReserved = shared && spent.length >= dailyBudget - RESERVED;
  const untilOf = (cause: string): number => {
    const dueAt = missing.includes(cause) ? now : vanishedAt;
    const own = spent.filter(({ by }) => by.includes(cause));
    const last = own.at(-1);
    if (spent.length >= dailyBudget) return dayAfter(spent[spent.length - dailyBudget]);
    if (last === undefined) return dueAt;
    if (isReserved) return dayAfter(spent[0]);
    const intervalMs = Math.min(minIntervalSeconds * 1_000 * 2 ** (own.length - 1), MAX_INTERVAL_MS);
    return Math.max(dueAt, last.begun + intervalMs);
  };
  const causes = [...new Set([...missing, ...extra])].sort();
  const soonest = Math.min(...causes.map(untilOf));
  const until = Math.max(soonest, (restarts.at(-1)?.begun ?? 0) + minIntervalSeconds * 1_000);
  if (until <= now) return causes.filter((cause) => untilOf(cause) <= now);
  const minutes = Math.ceil((until - now) / 60_000);
  const wait = `no further restart for ${minutes > 120 ? `${Math.ceil(minutes / 60)} h` : `${minutes} min`}`;
  const isSpent = soonest > now && (isReserved || spent.length >= dailyBudget);
  if (!isSpent) return waiting("delayed", `restarted recently: ${wait}`, until);
  const isUndone = spent.length > 0 && state.restartedAt !== stamp(spent.at(-1)?.at ?? 0);
  const undone = isUndone ? "; somebody put the template back after the last one" : "";
  const others = spent.length < dailyBudget ? ", and the last ones are for other namespaces" : "";
  return waiting("budget-spent", `${spent.length} restarts in 24 hours${others}: ${wait}${undone}`, until);
}

type Selector = ReturnType<typeof createSelector>;
/** What a restart would change. */
export type Difference = ReturnType<typeof differenceOf>;

/**
 * Compares the hosts lines of pods with those of new ones. A different or missing revision only shows that they may
 * differ: forging or removing the annotation changes no line. `known`: the last holder of each name.
 */
export function differenceOf(pods: readonly RawPod[], select: Selector, known: ReadonlyMap<string, string>) {
  const holders = (names: readonly string[]) => [...new Set(names.map((name) => known.get(name) ?? ""))];
  const holdersOf = (changed: readonly string[]) => holders(changed.map((line) => line.slice(line.indexOf(" ") + 1)));
  const compared = pods.map((pod) => {
    const [hostAliases, annotations] = [hostAliasesOf(pod), pod.metadata?.annotations ?? {}];
    const selected = select(annotations[HOSTS_KEY]);
    const { userAliases, managed } = planInjection(hostAliases, annotations, selected);
    const [has, should] = [linesOf(hostAliases), linesOf([...userAliases, ...managed.aliases])];
    return { missing: [...should.difference(has)], extra: [...has.difference(should)], names: selected.names };
  });
  return {
    /** The namespaces that hold the names of missing lines, and of lines that a new pod would not get. */
    missing: holdersOf(compared.flatMap((each) => each.missing)),
    extra: holdersOf(compared.flatMap((each) => each.extra)),
    /** Whether several namespaces hold the names that a pod selects. */
    shared: compared.some(({ names }) => holders(names).length > 1),
  };
}

function linesOf(aliases: readonly HostAlias[]): Set<string> {
  return new Set(aliases.flatMap(({ ip, hostnames }) => hostnames.map((name) => `${ip} ${name.toLowerCase()}`)));
}
