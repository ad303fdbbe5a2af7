import { compareNames } from "#hostmap/hostnames.ts";
import { HOSTS_KEY } from "#hostmap/metadata-keys.ts";
import type { OnChange } from "#hostmap/on-change.ts";
import type { Reason } from "#hostmap/types.ts";
import { type EventRecorder, eventReason, type Regarding } from "#lib/kube/events.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import { DAY_MS, type RestartRecords, stamp } from "./restart-record.ts";
import type { Decision, Workload } from "./workload.ts";

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
  readonly standing: Decision["standing"];
  /** RFC 3339. */
  readonly lastRestart: string | undefined;
  readonly warnings: readonly Reason[];
}

/** Counts of opted-in workloads and pods. */
export interface RolloutCounts {
  readonly workloads: number;
  readonly pods: number;
  readonly stale: number;
  readonly notInjected: number;
  readonly decisions: ReadonlyArray<Pick<Decision, "standing" | "code"> & { readonly workloads: number }>;
}

/** How running pods follow the map, according to the leader. */
export interface RolloutStatus {
  /** Why the state is not known yet, and the code of this reason. */
  readonly unknown: string | undefined;
  readonly unknownCode: string | undefined;
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

/** Maximum number of workloads in one answer: about 400 KB. */
const MAX_WORKLOADS = 1_000;
const HOUR_MS = 3_600_000;
const URGENCY: readonly Decision["standing"][] = ["stuck", "waiting", "left", "in-step"];

interface StatusInput extends Pick<RolloutStatus, "dryRun" | "underWay"> {
  readonly unknown: Reason | undefined;
  readonly workloads: ReadonlyMap<string, Workload>;
  readonly records: Pick<RestartRecords, "count">;
}

export function rolloutStatus(input: StatusInput, { namespace, stuck, after }: WorkloadQuery): RolloutStatus {
  const { unknown, dryRun, underWay, records } = input;
  const selected = [...input.workloads.values()].filter(
    ({ owner, decision }) =>
      (namespace === undefined || owner.namespace === namespace) &&
      (!stuck || decision.standing === "stuck") &&
      (after === undefined || owner.key > after),
  );
  const urgency = ({ decision: { standing } }: Workload) => (after === undefined ? URGENCY.indexOf(standing) : 0);
  selected.sort((one, other) => urgency(one) - urgency(other) || compareNames(one.owner.key, other.owner.key));
  const shown = selected.slice(0, MAX_WORKLOADS);
  const omitted = selected.length - shown.length;
  const counts = countWorkloads(input.workloads.values());
  return {
    unknown: unknown?.text,
    unknownCode: unknown?.code,
    dryRun,
    underWay,
    waiting: waitingOf(counts),
    restartsLastHour: records.count(HOUR_MS),
    restartsToday: records.count(DAY_MS),
    counts,
    workloads: shown.map(workloadStatus).sort((one, other) => compareNames(sortKey(one), sortKey(other))),
    omitted,
    next: after !== undefined && omitted > 0 ? shown.at(-1)?.owner.key : undefined,
  };
}

/** Reads the workload query of a status request: `in`, `stuck` and `after`. */
export function workloadQuery(query: URLSearchParams): WorkloadQuery {
  return {
    namespace: query.get("in") ?? undefined,
    stuck: query.has("stuck"),
    after: query.get("after") ?? undefined,
  };
}

function workloadStatus({ owner, pods, stale, notInjected, onChange, overCap, decision }: Workload): WorkloadStatus {
  const { namespace, kind, name } = owner;
  const restarts = Array.from(pods.values(), ({ restartedAt }) => Date.parse(restartedAt ?? "")).filter(
    Number.isFinite,
  );
  const capped = overCap && {
    code: "over-cap",
    text: `its pods get only the first ${overCap.cap} of ${overCap.total} mapped names`,
  };
  return {
    namespace,
    kind,
    name,
    pods: pods.size,
    stale: staleOf({ stale, decision }),
    notInjected,
    mode: onChange.mode,
    modeFrom: onChange.from,
    standing: decision.standing,
    code: decision.code,
    text: decision.text,
    lastRestart: restarts.length === 0 ? undefined : stamp(restarts.reduce((one, other) => Math.max(one, other))),
    warnings: [...onChange.problems, ...(capped ? [capped] : [])],
  };
}

function sortKey({ namespace, kind, name }: WorkloadStatus): string {
  return `${namespace}/${name}/${kind}`;
}

/** Number of pods that lack lines. A pod may have another revision and all lines. */
function staleOf({ stale, decision }: Pick<Workload, "stale" | "decision">): number {
  return decision.standing === "in-step" ? 0 : stale.length;
}

export function countWorkloads(workloads: Iterable<Workload>): RolloutCounts {
  const sums = { workloads: 0, pods: 0, stale: 0, notInjected: 0 };
  const decisions = new Map<string, { standing: Decision["standing"]; code: string; workloads: number }>();
  for (const workload of workloads) {
    const { standing, code } = workload.decision;
    sums.workloads += 1;
    sums.pods += workload.pods.size;
    sums.stale += staleOf(workload);
    sums.notInjected += workload.notInjected;
    const key = `${standing} ${code}`;
    const entry = decisions.get(key) ?? { standing, code, workloads: 0 };
    entry.workloads += 1;
    decisions.set(key, entry);
  }
  return { ...sums, decisions: [...decisions.values()] };
}

/** The number of workloads that wait for a restart, without those that are updated in place. */
function waitingOf({ decisions }: RolloutCounts): number {
  return decisions
    .filter(({ standing, code }) => standing === "waiting" && code !== "live")
    .reduce((sum, { workloads }) => sum + workloads, 0);
}

/** What the metrics show. */
export interface RolloutMetricsInput extends RolloutCounts {
  /** Numbers of nodes with live pods, by the state of their agent. Undefined: there are no agents. */
  readonly agents: Readonly<Record<string, number>> | undefined;
}

const PREFIX = "switchback_controller_";

/** Adds the gauges of rollouts. `counts` is read at each scrape; undefined: not known, and therefore not reported. */
export function addRolloutGauges(registry: MetricsRegistry, counts: () => RolloutMetricsInput | undefined): void {
  type Series = Exclude<ReturnType<Parameters<MetricsRegistry["gauge"]>[2]>, number>;
  const gauge = (name: string, help: string, seriesOf: (known: RolloutMetricsInput) => Series) =>
    registry.gauge(`${PREFIX}${name}`, help, () => {
      const known = counts();
      return known === undefined ? [] : seriesOf(known);
    });
  gauge(
    "opted_in_pods",
    "Running opted-in pods: all, those without the current names, and those that the webhook did not inject",
    ({ pods, stale, notInjected }) => [
      [{ state: "all" }, pods],
      [{ state: "stale" }, stale],
      [{ state: "not-injected" }, notInjected],
    ],
  );
  gauge(
    "workloads",
    "Owners of opted-in pods by standing (in-step, waiting, left, stuck) and the reason's code",
    ({ decisions }) => decisions.map(({ standing, code, workloads }) => [{ standing, code }, workloads]),
  );
  gauge("restarts_waiting", "Workloads that are waiting for a restart", (known) => [[{}, waitingOf(known)]]);
  gauge("agents", "Nodes on which pods follow live, by their agent: alive, silent, absent", ({ agents }) =>
    Object.entries(agents ?? {}).map(([state, nodes]) => [{ state }, nodes]),
  );
}

/** Counters of restarts. */
export type RestartCounters = Readonly<Record<"restarted" | "conflict" | "forbidden" | "failed", () => void>>;

/** Registers the counters of restarts. */
export function restartCounters(registry: MetricsRegistry): RestartCounters {
  const counter = (name: string, help: string) => {
    const registered = registry.counter(`${PREFIX}${name}`, help);
    return () => registered.inc();
  };
  return {
    restarted: counter("restarts_total", "Workloads restarted"),
    conflict: counter(
      "restart_conflicts_total",
      "Restarts that met another change of the workload; each is tried again",
    ),
    forbidden: counter("restarts_refused_total", "Restarts that the API server refused"),
    failed: counter("rollout_failures_total", "Restarts whose rollout failed"),
  };
}

export interface ReporterDeps {
  readonly events: Pick<EventRecorder, "record">;
  readonly log: Logger;
  readonly counters: RestartCounters;
}

/** Maximum number of workloads with a report that still holds. The status and the metrics have all. */
const MAX_REPORTED = 500;

/** Reports changes by a log line and an Event: once when a state begins, not while it lasts. */
export class Reporter {
  readonly #deps: ReporterDeps;
  /** The reported state of a workload. */
  readonly #reported = new Map<string, { readonly code: string | undefined; readonly capped: string | undefined }>();

  constructor(deps: ReporterDeps) {
    this.#deps = deps;
  }

  count(what: keyof RestartCounters): void {
    this.#deps.counters[what]();
  }

  /** A restart was sent. `by`: the namespaces whose names caused it. */
  restarted({ owner, to }: Workload, uid: string, by: readonly string[]): void {
    const { log, events, counters } = this.#deps;
    const { key, namespace, kind, name } = owner;
    counters.restarted();
    log.info({ workload: key, to, by }, "restarted because its pods did not have the current names");
    events.record({
      type: "Normal",
      reason: eventReason("restarting"),
      action: "Restart",
      note: `Restarted by Switchback: its pods did not have the current public names (${to})`,
      regarding: { apiVersion: "apps/v1", kind, namespace, name, uid },
    });
  }

  /** A restart has ended. */
  ended(key: string, outcome: "done" | "failed" | "in-vain" | "replaced"): void {
    if (outcome === "failed") this.#deps.counters.failed();
    this.#deps.log.info({ workload: key, outcome }, "restart ended");
  }

  /** Reports a workload that needs intervention, or whose pods cannot have every name. */
  report(workload: Workload): void {
    const { owner, pods, decision, overCap } = workload;
    const { key } = owner;
    const before = this.#reported.get(key);
    const isThere = pods.size > 0;
    const code = isThere && decision.standing === "stuck" ? decision.code : undefined;
    const capped = isThere && overCap ? `${overCap.cap} of ${overCap.total}` : undefined;
    if (before?.code === code && before?.capped === capped) return;
    if (before === undefined && this.#reported.size >= MAX_REPORTED) return;
    if (code === undefined && capped === undefined) this.#reported.delete(key);
    else this.#reported.set(key, { code, capped });
    if (code !== before?.code) this.#reportCode(workload, code, before?.code);
    if (capped === undefined || capped === before?.capped) return;
    const note = `Pods get only the first ${capped} mapped names; select fewer with the annotation ${HOSTS_KEY}`;
    this.#warn(workload, "OverCap", note);
  }

  #reportCode(workload: Workload, code: string | undefined, before: string | undefined): void {
    const { owner, pods, stale, decision } = workload;
    const { log } = this.#deps;
    if (code === undefined) {
      log.info({ workload: owner.key, before, code: decision.code }, "the workload is no longer stuck");
      return;
    }
    const note = `${stale.length} of ${pods.size} pods do not have the current public names: ${decision.text}`;
    log.warn({ workload: owner.key, code, stale: stale.length }, note);
    this.#warn(workload, eventReason(code), note);
  }

  /** The Event is about a pod: `kubectl describe` finds Events by uid, and the workload's may not be known. */
  #warn({ stale, pods }: Workload, reason: string, note: string): void {
    const pod = stale[0] ?? pods.values().next().value;
    if (pod === undefined) return;
    const { namespace, name, uid } = pod;
    const regarding: Regarding = { apiVersion: "v1", kind: "Pod", namespace, name, uid };
    this.#deps.events.record({ type: "Warning", reason, action: "Restart", note, regarding });
  }
}
