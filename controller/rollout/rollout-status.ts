import { compareNames } from "#hostmap/hostnames.ts";
import type { OnChange } from "#hostmap/on-change.ts";
import type { Reason } from "#hostmap/types.ts";
import { partsOf } from "#lib/workloads/workload-keys.ts";
import { NOT_DECIDED, type RolloutCounts } from "./cohorts.ts";
import type { GroupSummary } from "./observe-workloads.ts";
import { DAY_MS, type History, stamp } from "./restart-history.ts";
import { isHistory } from "./restart-preconditions.ts";
import type { RolloutDecision } from "./workload-facts.ts";

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
  readonly standing: RolloutDecision["standing"];
  /** RFC 3339. */
  readonly lastRestart: string | undefined;
  readonly warnings: readonly Reason[];
}

/** How running pods follow the map, according to the leader. */
export interface RolloutStatus {
  /** Why the state is not known yet, and the code of this reason. */
  readonly unknown: string | undefined;
  readonly unknownCode: string | undefined;
  /** A remark about how the pods are observed. */
  readonly notice: Reason | undefined;
  readonly dryRun: boolean;
  /** `namespace/Kind/name` of the workload that is being restarted. */
  readonly underWay: string | undefined;
  /** Workloads that are waiting for a restart. */
  readonly waiting: number;
  readonly restartsLastHour: number;
  readonly restartsToday: number;
  /** Counts of all workloads, regardless of the query. */
  readonly counts: RolloutCounts;
  /** The selected workloads, at most 1,000, by namespace and name. */
  readonly workloads: readonly WorkloadStatus[];
  /** The number of selected workloads that are left out: those after a page, or else the least urgent ones. */
  readonly omitted: number;
  /** For a page: the `after` value of the next page; undefined: this is the last page. */
  readonly next: string | undefined;
}

/** Which workloads a status shows. */
export interface WorkloadQuery {
  readonly namespace?: string | undefined;
  /** Only workloads that stay stale until somebody intervenes. */
  readonly stuck?: boolean | undefined;
  /**
   * Selects the page after this key (`namespace/Kind/name`), ordered by key. Without it, the most urgent workloads
   * come first.
   */
  readonly after?: string | undefined;
}

/** Maximum number of workloads in one answer: about 400 KB, which take 10 ms to write. */
const MAX_WORKLOADS = 1_000;

const HOUR_MS = 3_600_000;

interface RolloutStatusInput extends Pick<RolloutStatus, "notice" | "dryRun" | "counts" | "omitted" | "next"> {
  readonly unknown: Reason | undefined;
  readonly underWay: string | undefined;
  /** By key. */
  readonly selected: ReadonlyMap<string, GroupSummary>;
  readonly decisionOf: (key: string) => RolloutDecision | undefined;
  readonly historyOf: (key: string) => History | Reason;
  readonly restarts: readonly number[];
  readonly now: number;
}

export function rolloutStatus(facts: RolloutStatusInput): RolloutStatus {
  const { unknown, notice, dryRun, underWay, selected, counts, omitted, next, restarts, now } = facts;
  const workloads = [...selected]
    .map(([key, summary]) => workloadStatus(key, summary, facts.decisionOf(key), facts.historyOf(key)))
    .sort((one, other) => compareNames(sortKey(one), sortKey(other)));
  const within = (ms: number) => restarts.filter((at) => at > now - ms).length;
  return {
    unknown: unknown?.text,
    unknownCode: unknown?.code,
    notice,
    dryRun,
    underWay,
    waiting: waitingOf(counts),
    restartsLastHour: within(HOUR_MS),
    restartsToday: within(DAY_MS),
    counts,
    workloads,
    omitted,
    next,
  };
}

/** The number of workloads that wait for a restart, without those that are updated in place. */
export function waitingOf({ decisions }: RolloutCounts): number {
  return decisions
    .filter(({ standing, code }) => standing === "waiting" && code !== "live")
    .reduce((sum, { workloads }) => sum + workloads, 0);
}

/** Reads the workload query of a status request: `in`, `stuck` and `after`. */
export function workloadQuery(query: URLSearchParams): WorkloadQuery {
  return {
    namespace: query.get("in") ?? undefined,
    stuck: query.has("stuck"),
    after: query.get("after") ?? undefined,
  };
}

/** Selects the keys of a status: either the most urgent ones, or one page of all. */
export function selectKeys(
  byUrgency: readonly (readonly string[])[],
  { stuck, after }: WorkloadQuery,
): { readonly keys: readonly string[]; readonly omitted: number; readonly next: string | undefined } {
  const lists = stuck ? byUrgency.slice(0, 1) : byUrgency;
  if (after !== undefined) {
    const rest = lists.flat().filter((key) => key > after);
    const keys = lowest(rest, MAX_WORKLOADS);
    const omitted = rest.length - keys.length;
    return { keys, omitted, next: omitted > 0 ? keys.at(-1) : undefined };
  }
  const keys: string[] = [];
  for (const list of lists) keys.push(...lowest(list, MAX_WORKLOADS - keys.length));
  return { keys, omitted: lists.reduce((sum, { length }) => sum + length, 0) - keys.length, next: undefined };
}

/** The `count` lowest texts, sorted. Most texts are compared only once, because the whole list is never sorted. */
function lowest(texts: readonly string[], count: number): string[] {
  const found: string[] = [];
  let bound: string | undefined;
  const cut = () => {
    found.sort();
    found.length = Math.min(found.length, count);
    bound = found.length === count ? found.at(-1) : undefined;
  };
  for (const text of texts) {
    if (bound !== undefined && text >= bound) continue;
    found.push(text);
    if (found.length >= 2 * count) cut();
  }
  cut();
  return found;
}

function workloadStatus(
  key: string,
  summary: GroupSummary,
  decision: RolloutDecision = NOT_DECIDED,
  history: History | Reason,
): WorkloadStatus {
  const { namespace, kind, name } = partsOf(key);
  const last = isHistory(history) ? history.at(-1) : undefined;
  const { standing, code, text } = decision;
  return {
    namespace,
    kind,
    name,
    pods: summary.pods,
    stale: standing === "in-step" ? 0 : summary.stale,
    notInjected: summary.notInjected,
    mode: summary.onChange.mode,
    modeFrom: summary.onChange.from,
    standing,
    code,
    text,
    lastRestart: last && stamp(last.at),
    warnings: [...summary.warnings, ...capWarning(summary)],
  };
}

function capWarning({ overCap }: GroupSummary): Reason[] {
  if (overCap === undefined) return [];
  const { total, cap } = overCap;
  return [{ code: "over-cap", text: `its pods get only the first ${cap} of ${total} mapped names` }];
}

function sortKey({ namespace, kind, name }: WorkloadStatus): string {
  return `${namespace}/${name}/${kind}`;
}
