import type { OnChange } from "../../hostmap/on-change.ts";
import type { Reason } from "../../hostmap/types.ts";
import { partsOf } from "../../workloads/workload-keys.ts";
import type { WorkloadGroup } from "./observe-workloads.ts";
import { DAY_MS, type History, stamp } from "./restart-history.ts";
import { isHistory } from "./restart-preconditions.ts";
import type { RolloutVerdict } from "./workload-facts.ts";

/** One owner of opted-in pods, as `/status` and `switchback status` show it. */
export interface WorkloadStatus extends Reason {
  readonly namespace: string;
  readonly kind: string;
  readonly name: string;
  readonly pods: number;
  readonly stale: number;
  /** Pods that the webhook did not inject, or that lost its annotations. */
  readonly notInjected: number;
  readonly mode: OnChange;
  readonly modeFrom: string;
  readonly standing: RolloutVerdict["standing"];
  /** RFC 3339. */
  readonly lastRestart: string | undefined;
  readonly warnings: readonly Reason[];
}

/** How running pods follow the map, as the leader knows it. */
export interface RolloutStatus {
  /** Why the state is not known yet. */
  readonly unknown: string | undefined;
  readonly dryRun: boolean;
  /** `namespace/Kind/name` of the workload that is being restarted. */
  readonly underWay: string | undefined;
  /** Workloads that are waiting for a restart. */
  readonly waiting: number;
  readonly restartsLastHour: number;
  readonly restartsToday: number;
  readonly workloads: readonly WorkloadStatus[];
}

const HOUR_MS = 3_600_000;

interface RolloutStatusInput {
  readonly unknown: string | undefined;
  readonly dryRun: boolean;
  readonly groups: readonly WorkloadGroup[];
  readonly verdicts: ReadonlyMap<string, RolloutVerdict>;
  readonly historyOf: (key: string) => History | Reason;
  readonly restarts: readonly number[];
  readonly now: number;
}

export function rolloutStatus(facts: RolloutStatusInput): RolloutStatus {
  const { unknown, dryRun, groups, verdicts, restarts, now } = facts;
  const workloads = groups
    .filter(({ pods }) => pods > 0)
    .map((group) => workloadStatus(group, verdicts.get(group.owner.key), facts.historyOf(group.owner.key)))
    .sort((one, other) => compare(sortKey(one), sortKey(other)));
  const within = (ms: number) => restarts.filter((at) => at > now - ms).length;
  return {
    unknown,
    dryRun,
    underWay: [...verdicts].find(([, { code }]) => code === "restarting")?.[0],
    waiting: workloads.filter(({ standing, code }) => standing === "waiting" && code !== "live").length,
    restartsLastHour: within(HOUR_MS),
    restartsToday: within(DAY_MS),
    workloads,
  };
}

const NOT_EVALUATED: RolloutVerdict = {
  standing: "waiting",
  code: "not-judged",
  text: "it was just discovered and is not evaluated yet",
};

function workloadStatus(
  group: WorkloadGroup,
  verdict: RolloutVerdict = NOT_EVALUATED,
  history: History | Reason,
): WorkloadStatus {
  const { namespace, kind, name } = partsOf(group.owner.key);
  const last = isHistory(history) ? history.at(-1) : undefined;
  const { standing, code, text } = verdict;
  return {
    namespace,
    kind,
    name,
    pods: group.pods,
    stale: standing === "in-step" ? 0 : group.stale.length,
    notInjected: group.notInjected,
    mode: group.onChange.mode,
    modeFrom: group.onChange.from,
    standing,
    code,
    text,
    lastRestart: last && stamp(last.at),
    warnings: [...group.warnings, ...capWarning(group)],
  };
}

function capWarning({ overCap }: WorkloadGroup): Reason[] {
  if (overCap === undefined) return [];
  const { total, cap } = overCap;
  return [{ code: "over-cap", text: `its pods get only the first ${cap} of ${total} mapped names` }];
}

function sortKey({ namespace, kind, name }: WorkloadStatus): string {
  return `${namespace}/${name}/${kind}`;
}

function compare(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}
