import { compareNames } from "#hostmap/hostnames.ts";
import { eventReason } from "#lib/kube/events.ts";
import type { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import type { Owner } from "#lib/workloads/owners.ts";
import type { StalePods } from "./stale-pods.ts";
import { type Decision, lastRestart, type RestarterDeps, type Workload } from "./workload.ts";

/** Maximum number of workloads in one answer: about 2 MB. */
const MAX_WORKLOADS = 5_000;
const URGENCY: readonly Decision["standing"][] = ["stuck", "waiting", "left", "in-step"];

/** How running pods follow the map, according to the leader. */
export type RolloutStatus = ReturnType<typeof rolloutStatus>;

/** The status. `namespace`: only the workloads of this namespace; default: all. */
export function rolloutStatus(pods: Pick<StalePods, "unknown" | "workloads" | "underWay">, namespace?: string) {
  const { unknown, workloads, underWay } = pods;
  const all = [...workloads.values()];
  const selected = all.filter(({ owner }) => namespace === undefined || owner.namespace === namespace);
  const urgency = ({ decision: { standing } }: Workload) => URGENCY.indexOf(standing);
  selected.sort((one, other) => urgency(one) - urgency(other) || compareNames(one.owner.key, other.owner.key));
  return {
    /** Why the state is not known yet. */
    unknown,
    /** `namespace/Kind/name` of the workload whose restart the others wait for. */
    underWay,
    /** Number of workloads that wait for a restart. */
    waiting: all.filter(({ decision }) => decision.standing === "waiting").length,
    /** All workloads, also of other namespaces. */
    counts: { workloads: all.length, ...countPods(all) },
    /** The most urgent ones first. */
    workloads: selected.slice(0, MAX_WORKLOADS).map(workloadStatus),
    /** The number of selected workloads that are left out. */
    omitted: Math.max(0, selected.length - MAX_WORKLOADS),
  };
}

/** One owner of opted-in pods, as `/status` and `switchback status` show it. */
export type WorkloadStatus = ReturnType<typeof workloadStatus>;

function workloadStatus({ owner, pods, stale, onChange, decision }: Workload) {
  const { namespace, kind, name } = owner;
  const { standing, code, text } = decision;
  const last = lastRestart({ pods });
  return {
    ...{ namespace, kind, name, standing, code, text },
    pods: pods.length,
    stale: staleOf({ stale, decision }),
    /** Pods that the webhook did not inject, or that lost its annotations. */
    notInjected: pods.filter(({ revision }) => revision === undefined).length,
    mode: onChange.mode,
    modeFrom: onChange.from as string,
    /** RFC 3339. */
    lastRestart: last > 0 ? new Date(last).toISOString() : undefined,
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

const PREFIX = "switchback_controller_";

/**
 * Registers the metrics of restarts, and returns the counters. Each scrape calls `pods`. While they are not known, the
 * gauges report nothing.
 */
export function addRestartMetrics(
  registry: MetricsRegistry,
  pods: () => Pick<StalePods, "unknown" | "workloads"> | undefined,
): RestarterDeps["counters"] {
  const known = () => (pods()?.unknown === undefined ? pods() : undefined);
  const workloads = () => [...(known()?.workloads.values() ?? [])];
  registry.gauge(`${PREFIX}opted_in_pods`, "Running opted-in pods: all, and those without the current names", () => {
    const { pods: all, stale } = countPods(workloads());
    return known() === undefined ? [] : Object.entries({ all, stale }).map(([state, count]) => [{ state }, count]);
  });
  registry.gauge(
    `${PREFIX}workloads`,
    "Owners of opted-in pods by standing (in-step, waiting, left, stuck) and the reason's code",
    () => {
      const groups = Map.groupBy(workloads(), ({ decision: { standing, code } }) => `${standing} ${code}`);
      return [...groups].map(([key, all]) => {
        const [standing = "", code = ""] = key.split(" ");
        return [{ standing, code }, all.length];
      });
    },
  );
  return {
    restarted: registry.counter(`${PREFIX}restarts_total`, "Workloads restarted"),
    failed: registry.counter(`${PREFIX}rollout_failures_total`, "Restarts whose rollout failed"),
  };
}

/** Reports a restart that was sent. */
export function reportRestart({ namespace, kind, name }: Owner, uid: string, events: RestarterDeps["events"]): void {
  const note = "Restarted by Switchback: its pods did not have the current public names";
  const regarding = { apiVersion: "apps/v1", kind, namespace, name, uid };
  events.record({ type: "Normal", reason: eventReason("restarting"), action: "Restart", note, regarding });
}

/**
 * Reports a workload that needs intervention, once until its pods have their names. The Event is about a pod: `kubectl
 * describe` finds Events by uid, and the workload's may not be known.
 */
export function reportStuck(workload: Workload, events: RestarterDeps["events"]): void {
  const { standing, code, text } = workload.decision;
  const [pod] = workload.stale;
  if (standing === "in-step") workload.reported = undefined;
  if (standing !== "stuck" || pod === undefined || workload.reported === code) return;
  workload.reported = code;
  const { namespace, name, uid } = pod;
  const regarding = { apiVersion: "v1", kind: "Pod", namespace, name, uid };
  const note = `Pods do not have the current public names: ${text}`;
  events.record({ type: "Warning", reason: eventReason(code), action: "Restart", note, regarding });
}
