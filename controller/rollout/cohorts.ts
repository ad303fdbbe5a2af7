import type { Reason } from "#hostmap/types.ts";
import type { GroupSummary, PodClass } from "./observe-workloads.ts";
import type { RestartRules } from "./restart-limits.ts";
import { checkEligibility } from "./restart-preconditions.ts";
import type { RolloutDecision } from "./workload-facts.ts";

/** The facts that decide about a workload, without the identity of its pods. */
interface CohortFacts {
  readonly classes: ReadonlyArray<{ readonly of: PodClass; readonly count: number }>;
  /** Whether its namespace is in `restart.namespaces` or `optIn.namespaces`. */
  readonly permitted: boolean;
  readonly unrestartable: Reason | undefined;
}

/** The part of a workload that its cohort uses. */
export interface Member {
  /** `namespace/Kind/name`. */
  readonly key: string;
  cohort: Cohort | undefined;
  /**
   * When the member became stale. Valid only while `stalePeriod` equals that of the cohort; otherwise the cohort's
   * `staleSince` counts.
   */
  staleSince: number;
  stalePeriod: number;
}

/**
 * Workloads with equal classes of pods. After a change of the map, each cohort is evaluated once, however many
 * workloads it has.
 */
interface Cohort extends CohortFacts {
  readonly signature: string;
  readonly members: Set<Member>;
  summary: GroupSummary;
  /** Why no member is restarted. It holds for all members; undefined: each member needs its own decision. */
  decision: RolloutDecision | undefined;
  /** When a new map made the members stale. */
  staleSince: number;
  /** How often a new map has made the members stale. */
  stalePeriod: number;
  /** Members whose updaters are behind for too long. */
  readonly behind: Set<Member>;
  /** When to check for more such members, milliseconds since 1970. */
  nextBehind: number;
}

/** The number of workloads with this decision. */
interface DecisionCount {
  readonly standing: RolloutDecision["standing"];
  readonly code: string;
  workloads: number;
}

/** Counts of opted-in workloads and pods. */
export interface RolloutCounts {
  readonly workloads: number;
  readonly pods: number;
  readonly stale: number;
  /** Pods that the webhook did not inject, or that lost its annotations. */
  readonly notInjected: number;
  readonly decisions: readonly DecisionCount[];
}

/** Decisions of workloads by key. */
export type Decisions = Pick<ReadonlyMap<string, RolloutDecision>, "get">;

export const NOT_DECIDED: RolloutDecision = {
  standing: "waiting",
  code: "not-decided",
  text: "it was just discovered, and nothing is decided about it yet",
};

const UPDATER_BEHIND = { standing: "stuck", code: "agent-behind" } as const;

/** The cohorts of all workloads. Counts are updated by adding and subtracting whole cohorts. */
export class Cohorts {
  readonly #summarize: (classes: CohortFacts["classes"]) => GroupSummary;
  readonly #rules: Pick<RestartRules, "updaterMs">;
  readonly #now: () => number;
  readonly #cohorts = new Map<string, Cohort>();
  /** Cohorts that were last evaluated with an earlier map. */
  readonly #outdated = new Set<Cohort>();
  /** Cohorts whose members need individual decisions. */
  readonly #open = new Set<Cohort>();
  /** Stale cohorts that wait for updaters. */
  readonly #live = new Set<Cohort>();
  /** Cohorts with members that may be stuck. */
  readonly #notable = new Set<Cohort>();
  /** Cohorts with more names than a pod may have. */
  readonly #overCap = new Set<Cohort>();
  readonly #decisions = new Map<string, DecisionCount>();
  readonly #totals = { workloads: 0, pods: 0, stale: 0, notInjected: 0 };

  constructor(deps: {
    summarize: (classes: CohortFacts["classes"]) => GroupSummary;
    rules: Pick<RestartRules, "updaterMs">;
    now: () => number;
  }) {
    this.#summarize = deps.summarize;
    this.#rules = deps.rules;
    this.#now = deps.now;
  }

  /** Cohorts whose members need individual decisions. */
  get open(): Iterable<Cohort> {
    return this.#open;
  }

  /** Cohorts that have to be evaluated again. `evaluate` removes a cohort from this set. */
  get outdated(): ReadonlySet<Cohort> {
    return this.#outdated;
  }

  /** Call this when the map has changed. */
  outdate(): void {
    for (const cohort of this.#cohorts.values()) this.#outdated.add(cohort);
  }

  /** Counts of all workloads. `decided` has the individual decisions. */
  counts(decided: Decisions): RolloutCounts {
    let { stale } = this.#totals;
    const decisions = new Map([...this.#decisions].map(([key, count]) => [key, { ...count }]));
    for (const { members, summary } of this.#open) {
      for (const { key } of members) {
        const decision = decided.get(key) ?? NOT_DECIDED;
        countDecision(decisions, decision, 1);
        if (decision.standing !== "in-step") stale += summary.stale;
      }
    }
    return { ...this.#totals, stale, decisions: [...decisions.values()] };
  }

  /** Members that may be stuck, or whose pods do not get every name. */
  *notable(): Iterable<Member> {
    for (const { decision, members, behind } of this.#notable) {
      yield* decision === undefined || decision.standing === "stuck" ? members : behind;
    }
    for (const { members } of this.#overCap) yield* members;
  }

  /** Moves a member to the cohort with this signature. Different facts must have different signatures. */
  move(member: Member, signature: string, facts: () => CohortFacts): void {
    if (member.cohort?.signature === signature) return;
    const cohort = this.#cohorts.get(signature) ?? this.#create(signature, facts());
    const since = staleSinceOf(member) ?? this.#now();
    this.remove(member);
    this.#count(cohort, -1);
    cohort.members.add(member);
    Object.assign(member, { cohort, staleSince: since, stalePeriod: cohort.stalePeriod });
    this.#count(cohort, 1);
    if (this.#live.has(cohort)) cohort.nextBehind = Math.min(cohort.nextBehind, since + this.#rules.updaterMs);
  }

  remove(member: Member): void {
    const { cohort } = member;
    if (cohort === undefined) return;
    this.#count(cohort, -1);
    cohort.members.delete(member);
    cohort.behind.delete(member);
    member.cohort = undefined;
    if (cohort.members.size > 0) {
      this.#count(cohort, 1);
      return;
    }
    this.#cohorts.delete(cohort.signature);
    for (const some of [this.#outdated, this.#open, this.#live, this.#notable, this.#overCap]) some.delete(cohort);
  }

  /** Evaluates a cohort with the current map. */
  evaluate(cohort: Cohort): void {
    const now = this.#now();
    this.#count(cohort, -1);
    const [wasStale, wasLive] = [cohort.summary.stale > 0, this.#live.has(cohort)];
    cohort.summary = this.#summarize(cohort.classes);
    this.#outdated.delete(cohort);
    if (cohort.summary.stale > 0 && !wasStale) {
      cohort.staleSince = now;
      cohort.stalePeriod += 1;
    }
    this.#decide(cohort);
    const isLive = this.#live.has(cohort);
    if (!isLive) cohort.behind.clear();
    // Members that were stale before have their own times, so let `expire` check them now.
    if (isLive && !wasLive) cohort.nextBehind = wasStale ? now : now + this.#rules.updaterMs;
    this.#count(cohort, 1);
  }

  /** Finds the members whose updaters are behind for too long by now. */
  expire(): void {
    const now = this.#now();
    for (const cohort of this.#live) if (cohort.nextBehind <= now) this.#expire(cohort, now);
  }

  /** When the next updater will be behind for too long, milliseconds since 1970. */
  get nextDue(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const { nextBehind } of this.#live) next = Math.min(next, nextBehind);
    return next;
  }

  #create(signature: string, facts: CohortFacts): Cohort {
    const cohort: Cohort = {
      ...facts,
      signature,
      members: new Set(),
      summary: this.#summarize(facts.classes),
      decision: undefined,
      staleSince: this.#now(),
      stalePeriod: 0,
      behind: new Set(),
      nextBehind: Number.POSITIVE_INFINITY,
    };
    this.#decide(cohort);
    this.#cohorts.set(signature, cohort);
    return cohort;
  }

  /** Decides about all members together, or marks the cohort as open, or as waiting for updaters. */
  #decide(cohort: Cohort): void {
    const { summary, permitted, unrestartable } = cohort;
    const { mode } = summary.onChange;
    const now = this.#now();
    const stale = { length: summary.stale };
    const workload = {
      namespace: "",
      unrestartable,
      permitted,
      mode,
      updaters: summary.updaters,
      staleSince: now,
      stale,
    };
    cohort.decision = checkEligibility(workload, this.#rules, now);
    setTo(this.#open, cohort, cohort.decision === undefined);
    const isLive = summary.stale > 0 && mode === "live" && summary.updaters === "keeping";
    setTo(this.#live, cohort, isLive);
    setTo(this.#notable, cohort, isLive || cohort.decision === undefined || cohort.decision.standing === "stuck");
    setTo(this.#overCap, cohort, summary.overCap !== undefined);
  }

  #expire(cohort: Cohort, now: number): void {
    this.#count(cohort, -1);
    cohort.nextBehind = Number.POSITIVE_INFINITY;
    for (const member of cohort.members) {
      const due = (staleSinceOf(member) ?? now) + this.#rules.updaterMs;
      if (due <= now) cohort.behind.add(member);
      else cohort.nextBehind = Math.min(cohort.nextBehind, due);
    }
    this.#count(cohort, 1);
  }

  /** Adds a cohort to the counts, or subtracts it. Called before and after each change. */
  #count({ summary, decision, members, behind }: Cohort, sign: 1 | -1): void {
    const totals = this.#totals;
    const workloads = sign * members.size;
    totals.workloads += workloads;
    totals.pods += workloads * summary.pods;
    totals.notInjected += workloads * summary.notInjected;
    if (decision === undefined) return;
    totals.stale += workloads * summary.stale;
    countDecision(this.#decisions, decision, workloads - sign * behind.size);
    if (behind.size > 0) countDecision(this.#decisions, UPDATER_BEHIND, sign * behind.size);
  }
}

function countDecision(
  counts: Map<string, DecisionCount>,
  { standing, code }: Pick<RolloutDecision, "standing" | "code">,
  workloads: number,
): void {
  const key = `${standing} ${code}`;
  const count = counts.get(key) ?? { standing, code, workloads: 0 };
  count.workloads += workloads;
  if (count.workloads === 0) counts.delete(key);
  else counts.set(key, count);
}

/** The standing of a member. `decided` has the individual decisions. */
export function standingOf(member: Member, decided: Decisions): RolloutDecision["standing"] {
  const { cohort, key } = member;
  if (cohort?.behind.has(member)) return UPDATER_BEHIND.standing;
  return (cohort?.decision ?? decided.get(key) ?? NOT_DECIDED).standing;
}

/** When a member became stale, milliseconds since 1970; undefined: it is not stale. */
export function staleSinceOf({ cohort, staleSince, stalePeriod }: Member): number | undefined {
  if (cohort === undefined || cohort.summary.stale === 0) return undefined;
  return stalePeriod === cohort.stalePeriod ? staleSince : cohort.staleSince;
}

function setTo<T>(set: Set<T>, value: T, has: boolean): void {
  if (has) set.add(value);
  else set.delete(value);
}
