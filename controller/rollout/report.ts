import { compareNames } from "#hostmap/hostnames.ts";
import type { OnChange } from "#hostmap/on-change.ts";
import type { Reason } from "#hostmap/types.ts";
import { eventReason } from "#lib/kube/events.ts";
import type { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import type { Owner } from "#lib/workloads/owners.ts";
import type { Decision, RestartCounters, RestarterDeps, Workload } from "./workload.ts";

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

/** How running pods follow the map, according to the leader. */
export interface RolloutStatus {
  /** Why the state is not known yet. */
  readonly unknown: string | undefined;
  readonly dryRun: boolean;
  /** `namespace/Kind/name` of the workload that is being restarted. */
  readonly underWay: string | undefined;
  /** Workloads that are waiting for a restart. */
  readonly waiting: number;
  readonly restartsLastHour: number;
  /** All workloads, regardless of the query. */
  readonly counts: { readonly workloads: number; readonly pods: number; readonly stale: number };
  /** The selected workloads, by namespace and name: at most 5,000, the most urgent ones. */
  readonly workloads: readonly WorkloadStatus[];
  /** The number of selected workloads that are left out. */
  readonly omitted: number;
}

/** Which workloads a status shows. */
export interface WorkloadQuery {
  readonly namespace?: string | undefined;
  /** Only workloads that stay stale until somebody intervenes. */
  readonly stuck?: boolean | undefined;
}

/** Maximum number of workloads in one answer: about 2 MB. */
const MAX_WORKLOADS = 5_000;
const URGENCY: readonly Decision["standing"][] = ["stuck", "waiting", "left", "in-step"];

interface StatusInput extends Pick<RolloutStatus, "unknown" | "dryRun" | "underWay" | "restartsLastHour"> {
  readonly workloads: ReadonlyMap<string, Workload>;
}

export function rolloutStatus(input: StatusInput, { namespace, stuck }: WorkloadQuery): RolloutStatus {
  const all = [...input.workloads.values()];
  const selected = all.filter(
    ({ owner, decision }) =>
      (namespace === undefined || owner.namespace === namespace) && (!stuck || decision.standing === "stuck"),
  );
  const urgency = ({ decision: { standing } }: Workload) => URGENCY.indexOf(standing);
  selected.sort((one, other) => urgency(one) - urgency(other) || compareNames(one.owner.key, other.owner.key));
  const shown = selected.slice(0, MAX_WORKLOADS).map(workloadStatus);
  const isShown = input.workloads.get(input.underWay ?? "")?.decision.code === "restarting";
  return {
    ...input,
    underWay: isShown ? input.underWay : undefined,
    waiting: all.filter(({ decision }) => decision.standing === "waiting").length,
    counts: { workloads: all.length, ...countPods(all) },
    workloads: shown.sort((one, other) => compareNames(sortKey(one), sortKey(other))),
    omitted: selected.length - shown.length,
  };
}

/** Reads the workload query of a status request: `in` and `stuck`. */
export function workloadQuery(query: URLSearchParams): WorkloadQuery {
  return { namespace: query.get("in") ?? undefined, stuck: query.has("stuck") };
}

function workloadStatus({ owner, pods, stale, notInjected, onChange, decision }: Workload): WorkloadStatus {
  const { namespace, kind, name } = owner;
  const { standing, code, text } = decision;
  const times = pods.map(({ restartedAt }) => Date.parse(restartedAt ?? "")).filter(Number.isFinite);
  const last = times.reduce((one, other) => Math.max(one, other), Number.NEGATIVE_INFINITY);
  return {
    ...{ namespace, kind, name, standing, code, text, notInjected },
    pods: pods.length,
    stale: staleOf({ stale, decision }),
    mode: onChange.mode,
    modeFrom: onChange.from,
    lastRestart: times.length === 0 ? undefined : new Date(last).toISOString(),
    warnings: onChange.problems,
  };
}

/** Number of pods that lack lines. A pod may have another revision and all lines. */
function staleOf({ stale, decision }: Pick<Workload, "stale" | "decision">): number {
  return decision.standing === "in-step" ? 0 : stale.length;
}

function countPods(workloads: readonly Workload[]): { readonly pods: number; readonly stale: number } {
  const sumOf = (numbers: readonly number[]) => numbers.reduce((sum, each) => sum + each, 0);
  return { pods: sumOf(workloads.map(({ pods }) => pods.length)), stale: sumOf(workloads.map(staleOf)) };
}

function sortKey({ namespace, kind, name }: WorkloadStatus): string {
  return `${namespace}/${name}/${kind}`;
}

/** What the metrics show. */
export interface RolloutMetricsInput {
  readonly workloads: readonly Workload[];
  /** Numbers of nodes with live pods, by the state of their agent. */
  readonly agents: Readonly<Record<string, number>>;
}

const PREFIX = "switchback_controller_";

/** Adds the gauges of rollouts. `known` is read at each scrape; undefined: not known, and therefore not reported. */
export function addRolloutGauges(registry: MetricsRegistry, known: () => RolloutMetricsInput | undefined): void {
  registry.gauge(`${PREFIX}opted_in_pods`, "Running opted-in pods: all, and those without the current names", () => {
    const workloads = known()?.workloads;
    const { pods, stale } = countPods(workloads ?? []);
    return workloads === undefined
      ? []
      : [
          [{ state: "all" }, pods],
          [{ state: "stale" }, stale],
        ];
  });
  registry.gauge(
    `${PREFIX}workloads`,
    "Owners of opted-in pods by standing (in-step, waiting, left, stuck) and the reason's code",
    () => {
      const decisions = (known()?.workloads ?? []).map(({ decision }) => decision);
      const groups = Map.groupBy(decisions, ({ standing, code }) => `${standing} ${code}`).values();
      return [...groups].map((all) => [{ standing: all[0]?.standing ?? "", code: all[0]?.code ?? "" }, all.length]);
    },
  );
  registry.gauge(`${PREFIX}agents`, "Nodes on which pods follow live, by their agent: alive, silent, absent", () =>
    Object.entries(known()?.agents ?? {}).map(([state, nodes]) => [{ state }, nodes]),
  );
}

/** Registers the counters of restarts. */
export function restartCounters(registry: MetricsRegistry): RestartCounters {
  const restarted = registry.counter(`${PREFIX}restarts_total`, "Workloads restarted");
  const failed = registry.counter(`${PREFIX}rollout_failures_total`, "Restarts whose rollout failed");
  return { restarted: () => restarted.inc(), failed: () => failed.inc() };
}

/** Maximum number of workloads with a report that still holds. The status and the metrics have all. */
const MAX_REPORTED = 500;
type ReporterDeps = Pick<RestarterDeps, "events" | "log" | "counters">;

/** Reports restarts and stuck workloads by a log line and an Event. */
export class Reporter {
  readonly #deps: ReporterDeps;
  /** The reported code of each stuck workload, by its key. */
  readonly #reported = new Map<string, string>();

  constructor(deps: ReporterDeps) {
    this.#deps = deps;
  }

  /** A restart was sent. `by`: the namespaces whose names caused it. */
  restarted({ key, namespace, kind, name }: Owner, uid: string, by: readonly string[]): void {
    const { log, events, counters } = this.#deps;
    counters.restarted();
    log.info({ workload: key, by }, "restarted because its pods did not have the current names");
    const note = "Restarted by Switchback: its pods did not have the current public names";
    const regarding = { apiVersion: "apps/v1", kind, namespace, name, uid };
    events.record({ type: "Normal", reason: eventReason("restarting"), action: "Restart", note, regarding });
  }

  /** The rollout of a restart has failed. */
  failed(key: string): void {
    this.#deps.counters.failed();
    this.#deps.log.warn({ workload: key, code: "rollout-failed" }, "the rollout of a restart failed");
  }

  /**
   * Reports the workloads that need intervention, each once until its pods have their names. The Event is about a pod:
   * `kubectl describe` finds Events by uid, and the workload's may not be known.
   */
  report(workloads: ReadonlyMap<string, Workload>): void {
    for (const key of this.#reported.keys()) {
      if ((workloads.get(key)?.decision.standing ?? "in-step") === "in-step") this.#reported.delete(key);
    }
    for (const [key, { stale, decision }] of workloads) {
      const { standing, code, text } = decision;
      const [pod] = stale;
      if (standing !== "stuck" || pod === undefined || this.#reported.get(key) === code) continue;
      if (!this.#reported.has(key) && this.#reported.size >= MAX_REPORTED) continue;
      this.#reported.set(key, code);
      const note = `Pods do not have the current public names: ${text}`;
      this.#deps.log.warn({ workload: key, code, stale: stale.length }, note);
      const { namespace, name, uid } = pod;
      const regarding = { apiVersion: "v1", kind: "Pod", namespace, name, uid };
      this.#deps.events.record({ type: "Warning", reason: eventReason(code), action: "Restart", note, regarding });
    }
  }
}
