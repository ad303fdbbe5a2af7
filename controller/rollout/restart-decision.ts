import { checkWorkload, isHistory, waiting } from "./restart-checks.ts";
import { stamp } from "./restart-history.ts";
import { hasFailed, outcomeOf, type RestartOutcome } from "./restart-outcome.ts";
import type { RestartRules } from "./restart-rules.ts";
import type { RolloutVerdict, WorkloadFacts } from "./workload-facts.ts";

/** What every ready webhook replica says it uses. Undefined: not asked. */
export interface WebhookFacts {
  readonly ok: boolean;
  readonly text: string;
}

interface RolloutInput {
  readonly now: number;
  readonly rules: RestartRules;
  readonly workloads: readonly WorkloadFacts[];
  readonly webhooks: WebhookFacts | undefined;
}

export interface RolloutDecision {
  /** By key, of every workload. */
  readonly verdicts: ReadonlyMap<string, RolloutVerdict>;
  /** Restarts whose end is known now and was not before. */
  readonly outcomes: ReadonlyArray<{ readonly key: string; readonly outcome: Exclude<RestartOutcome, "running"> }>;
  /** The one workload to restart now. */
  readonly restart: string | undefined;
  /** Workloads whose pods' specs have to be looked at before anything can be said. */
  readonly diffFirst: readonly string[];
  /** Whether nothing but the webhooks' answer is missing. */
  readonly askWebhooks: boolean;
  /** When to decide again, if nothing happens before. */
  readonly wakeAt: number | undefined;
}

/** Workloads that are looked at in one go: a queue of hundreds is looked at as it moves. */
const LOOK_AHEAD = 5;

/**
 * The whole of restarting, as a function of what is known. At most one workload is under way: a restart without an outcome, of
 * whichever leader, holds all others back.
 */
export function decideRollout(world: RolloutInput): RolloutDecision {
  const { workloads, rules, now } = world;
  const verdicts = new Map<string, RolloutVerdict>();
  const queue: WorkloadFacts[] = [];
  for (const workload of workloads) {
    const verdict = checkWorkload(workload, rules, now);
    if (verdict === undefined) queue.push(workload);
    else verdicts.set(workload.key, verdict);
  }
  queue.sort(byTurn);
  const turn = takeTurn(world, queue, heldUntil(world, verdicts));
  for (const [index, { key }] of queue.entries()) verdicts.set(key, turn.verdictOf(index));
  return {
    verdicts,
    outcomes: workloads.flatMap((workload) => newOutcome(workload, rules, now)),
    restart: turn.restart,
    diffFirst: turn.lookAt,
    askWebhooks: turn.askWebhooks,
    wakeAt: earliest(verdicts.values(), now),
  };
}

interface Turn {
  readonly restart?: string;
  readonly lookAt: readonly string[];
  readonly askWebhooks: boolean;
  readonly verdictOf: (index: number) => RolloutVerdict;
}

const NOT_NOW = { lookAt: [], askWebhooks: false } as const;

/** Whose turn it is in a queue of workloads against which nothing stands, and what is said to the others. */
function takeTurn(world: RolloutInput, queue: readonly WorkloadFacts[], held: number | undefined): Turn {
  const { rules, webhooks, now } = world;
  const place = (index: number) => waiting("its-turn", `one workload at a time; ${index} before it`);
  const busy = world.workloads.find((workload) => isUnderWay(workload, rules, now));
  if (held !== undefined) {
    const text = `the last ${rules.holdAfter} restarts failed or brought no names into the pods: none until ${stamp(held)}`;
    return { ...NOT_NOW, verdictOf: () => waiting("restarts-held", text, held) };
  }
  if (busy !== undefined) return { ...NOT_NOW, verdictOf: (index) => place(index + 1) };
  const lookAt = queue.slice(0, LOOK_AHEAD).filter(({ diff }) => diff === undefined);
  if (lookAt.length > 0) return { ...NOT_NOW, lookAt: lookAt.map(({ key }) => key), verdictOf: place };
  if (rules.dryRun) {
    return { ...NOT_NOW, verdictOf: () => ({ ...waiting("dry-run", "would be restarted; restart.dryRun is on") }) };
  }
  const [first] = queue;
  if (first === undefined) return { ...NOT_NOW, verdictOf: place };
  if (webhooks === undefined) return { ...NOT_NOW, askWebhooks: true, verdictOf: place };
  if (!webhooks.ok) {
    return { ...NOT_NOW, verdictOf: () => waiting("webhook-behind", webhooks.text, now + ASK_AGAIN_MS) };
  }
  const restarting = waiting("restarting", "being restarted");
  return { ...NOT_NOW, restart: first.key, verdictOf: (index) => (index === 0 ? restarting : place(index)) };
}

/** Between two questions to webhooks that were not ready. */
const ASK_AGAIN_MS = 500;

/** Those that lack names before those that only have too many; then who has waited longest. */
function byTurn(one: WorkloadFacts, other: WorkloadFacts): number {
  const rank = ({ diff }: WorkloadFacts) => (diff?.missing === 0 ? 1 : 0);
  return rank(one) - rank(other) || one.staleSince - other.staleSince || (one.key < other.key ? -1 : 1);
}

/** Also one that is being taken back: its pods are made anew once more because of us. */
function isUnderWay({ history, state }: WorkloadFacts, rules: RestartRules, now: number): boolean {
  const last = isHistory(history) ? history.at(-1) : undefined;
  if (last === undefined) return false;
  const outcome = outcomeOf(last, state, rules, now);
  const moving = typeof state !== "string" && state.unsettled !== undefined && now - last.at < rules.rolloutMs;
  return outcome === "running" || (outcome === "reverted" && moving);
}

function newOutcome(workload: WorkloadFacts, rules: RestartRules, now: number): RolloutDecision["outcomes"] {
  const last = isHistory(workload.history) ? workload.history.at(-1) : undefined;
  if (last === undefined) return [];
  const outcome = outcomeOf(last, workload.state, rules, now);
  return outcome === "running" || outcome === last.outcome ? [] : [{ key: workload.key, outcome }];
}

/** Until when nothing is restarted, because the last few restarts were all in vain: whatever is wrong is not of one workload. */
function heldUntil(
  { workloads, rules, now }: RolloutInput,
  verdicts: ReadonlyMap<string, RolloutVerdict>,
): number | undefined {
  const last = workloads
    .flatMap(({ key, state, history }) =>
      (isHistory(history) ? history.slice(-1) : []).map((restart) => ({ key, state, restart })),
    )
    .sort((one, other) => other.restart.at - one.restart.at)
    .slice(0, rules.holdAfter);
  const [newest] = last;
  if (newest === undefined || last.length < rules.holdAfter) return undefined;
  const failed = ({ state, restart }: typeof newest) => hasFailed(restart, state, rules, now);
  // That a rollout fails is known only when its time is over.
  const until = newest.restart.at + (failed(newest) ? rules.rolloutMs : 0) + rules.holdMs;
  const inVain = last.every((each) => verdicts.get(each.key)?.code === "did-not-converge" || failed(each));
  return inVain && now < until ? until : undefined;
}

function earliest(verdicts: Iterable<RolloutVerdict>, now: number): number | undefined {
  let soonest = Number.POSITIVE_INFINITY;
  for (const { until } of verdicts) if (until !== undefined && until > now) soonest = Math.min(soonest, until);
  return Number.isFinite(soonest) ? soonest : undefined;
}
