import { compareNames } from "#hostmap/hostnames.ts";
import { begunAt, stamp } from "./restart-history.ts";
import type { RestartRules } from "./restart-limits.ts";
import { hasFailed, outcomeOf, type RestartOutcome } from "./restart-outcome.ts";
import { checkWorkload, isHistory, waiting } from "./restart-preconditions.ts";
import type { RolloutDecision, WorkloadFacts } from "./workload-facts.ts";

/** Whether every ready webhook replica uses the current map, and the API server can call them. */
export type WebhookFacts =
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly code: "webhook-behind" | "webhook-unreachable"; readonly text: string };

interface RolloutInput {
  readonly now: number;
  readonly rules: RestartRules;
  readonly workloads: readonly WorkloadFacts[];
  /** Undefined: the webhooks were not asked. */
  readonly webhooks: WebhookFacts | undefined;
}

export interface RolloutStep {
  /** The decision of every workload, by key. */
  readonly decisions: ReadonlyMap<string, RolloutDecision>;
  /** Restarts whose outcome is now known. */
  readonly outcomes: ReadonlyArray<{ readonly key: string; readonly outcome: Exclude<RestartOutcome, "running"> }>;
  /** The one workload to restart now. */
  readonly restart: string | undefined;
  /** Workloads whose pods have to be read and compared before a decision. */
  readonly diffFirst: readonly string[];
  /** Whether only the webhook replicas' answer is missing. */
  readonly askWebhooks: boolean;
  /** When to decide again if nothing changes until then. */
  readonly wakeAt: number | undefined;
}

/** Number of workloads at the head of the queue whose pods are read together. The pods of the others are read later. */
const LOOK_AHEAD = 5;

/**
 * Decides about restarts, as a pure function of the observed state. At most one workload is restarted at a time: a
 * restart without an outcome, by this or an earlier leader, holds back all others.
 */
export function decideRollout(input: RolloutInput, check = checkWorkload): RolloutStep {
  const { workloads, rules, now } = input;
  const decisions = new Map<string, RolloutDecision>();
  const queue: WorkloadFacts[] = [];
  for (const workload of workloads) {
    const decision = check(workload, rules, now);
    if (decision === undefined) queue.push(workload);
    else decisions.set(workload.key, decision);
  }
  queue.sort(byPriority);
  const scheduled = schedule(input, queue, heldUntil(input, decisions));
  for (const [index, { key }] of queue.entries()) decisions.set(key, scheduled.decisionOf(index));
  return {
    decisions,
    outcomes: workloads.flatMap((workload) => newOutcome(workload, rules, now)),
    restart: scheduled.restart,
    diffFirst: scheduled.diffFirst,
    askWebhooks: scheduled.askWebhooks,
    wakeAt: earliest(decisions.values(), now),
  };
}

interface Schedule {
  readonly restart?: string;
  readonly diffFirst: readonly string[];
  readonly askWebhooks: boolean;
  readonly decisionOf: (index: number) => RolloutDecision;
}

const NOT_NOW = { diffFirst: [], askWebhooks: false } as const;

/** Chooses the next restart from a sorted queue of workloads that pass every check, and decides on the others. */
function schedule(input: RolloutInput, queue: readonly WorkloadFacts[], held: number | undefined): Schedule {
  const { rules, webhooks, now } = input;
  const place = (index: number) => waiting("its-turn", `one workload at a time; ${index} before it`);
  const busy = input.workloads.find((workload) => isUnderWay(workload, rules, now));
  if (held !== undefined) {
    const text =
      `the last ${rules.holdAfter} restarts failed or did not bring the names into the pods: no restart until ` +
      `${stamp(held)}`;
    return { ...NOT_NOW, decisionOf: () => waiting("restarts-held", text, held) };
  }
  if (busy !== undefined) return { ...NOT_NOW, decisionOf: (index) => place(index + 1) };
  const unread = queue.slice(0, LOOK_AHEAD).filter(({ diff }) => diff === undefined);
  if (unread.length > 0) return { ...NOT_NOW, diffFirst: unread.map(({ key }) => key), decisionOf: place };
  if (rules.dryRun) {
    return { ...NOT_NOW, decisionOf: () => ({ ...waiting("dry-run", "would be restarted; restart.dryRun is on") }) };
  }
  const [first] = queue;
  if (first === undefined) return { ...NOT_NOW, decisionOf: place };
  if (webhooks === undefined) return { ...NOT_NOW, askWebhooks: true, decisionOf: place };
  if (!webhooks.ok) {
    const { code, text } = webhooks;
    return { ...NOT_NOW, decisionOf: () => waiting(code, text, now + ASK_AGAIN_MS[code]) };
  }
  const restarting = waiting("restarting", "being restarted");
  return { ...NOT_NOW, restart: first.key, decisionOf: (index) => (index === 0 ? restarting : place(index)) };
}

/**
 * Delay before the webhooks are asked again, in milliseconds. It is longer if calls fail, because the API server logs
 * each failed call.
 */
const ASK_AGAIN_MS = { "webhook-behind": 500, "webhook-unreachable": 2_000 } as const;

/** Workloads that lack names come before those that only have extra ones. Then the longest wait comes first. */
function byPriority(one: WorkloadFacts, other: WorkloadFacts): number {
  const rank = ({ diff }: WorkloadFacts) => Number(diff?.missing === 0);
  return rank(one) - rank(other) || one.staleSince - other.staleSince || compareNames(one.key, other.key);
}

/**
 * Whether a restart is in progress. This includes a restart that is being reverted, because reverting it recreates
 * its pods once more.
 */
function isUnderWay({ history, state }: WorkloadFacts, rules: RestartRules, now: number): boolean {
  const last = isHistory(history) ? history.at(-1) : undefined;
  if (last === undefined) return false;
  const outcome = outcomeOf(last, state, rules, now);
  const moving = typeof state !== "string" && state.unsettled !== undefined && now - begunAt(last) < rules.rolloutMs;
  return outcome === "running" || (outcome === "reverted" && moving);
}

function newOutcome(workload: WorkloadFacts, rules: RestartRules, now: number): RolloutStep["outcomes"] {
  const last = isHistory(workload.history) ? workload.history.at(-1) : undefined;
  if (last === undefined) return [];
  const outcome = outcomeOf(last, workload.state, rules, now);
  return outcome === "running" || outcome === last.outcome ? [] : [{ key: workload.key, outcome }];
}

/**
 * Until when all restarts are held. They are held if each of the last restarts was unsuccessful, because then the
 * cause is not in one workload.
 */
function heldUntil(
  { workloads, rules, now }: RolloutInput,
  decisions: ReadonlyMap<string, RolloutDecision>,
): number | undefined {
  const last = workloads
    .flatMap(({ key, state, history }) =>
      (isHistory(history) ? history.slice(-1) : []).map((restart) => ({ key, state, restart })),
    )
    .sort((one, other) => begunAt(other.restart) - begunAt(one.restart))
    .slice(0, rules.holdAfter);
  const [newest] = last;
  if (newest === undefined || last.length < rules.holdAfter) return undefined;
  const failed = ({ state, restart }: typeof newest) => hasFailed(restart, state, rules, now);
  // A failed rollout is known only after its time is over.
  const until = begunAt(newest.restart) + (failed(newest) ? rules.rolloutMs : 0) + rules.holdMs;
  const inVain = last.every((each) => decisions.get(each.key)?.code === "did-not-converge" || failed(each));
  return inVain && now < until ? until : undefined;
}

function earliest(decisions: Iterable<RolloutDecision>, now: number): number | undefined {
  let soonest = Number.POSITIVE_INFINITY;
  for (const { until } of decisions) if (until !== undefined && until > now) soonest = Math.min(soonest, until);
  return Number.isFinite(soonest) ? soonest : undefined;
}
