import type { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import type { RolloutCounts } from "./cohorts.ts";
import type { RestartCounters } from "./event-reporter.ts";
import type { UpdaterCounts } from "./node-updaters.ts";
import { waitingOf } from "./rollout-status.ts";

const PREFIX = "switchback_controller_";

/** What the metrics show. */
export interface RolloutMetricsInput extends RolloutCounts {
  /** Pods that are not observed, because there is no room for them. */
  readonly shed: number;
  /** Undefined: no updaters are configured. */
  readonly updaters: UpdaterCounts | undefined;
}

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
  gauge("pods_shed", "Pods that are not observed, as the memory for pods is bounded", ({ shed }) => [[{}, shed]]);
  gauge("agents", "Nodes on which pods follow live, by their agent: alive, silent, absent", ({ updaters }) =>
    Object.entries(updaters ?? {}).map(([state, nodes]) => [{ state }, nodes]),
  );
}

/** Registers the counters of restarts. */
export function restartCounters(registry: MetricsRegistry): RestartCounters {
  const counter = (name: string, help: string) => registry.counter(`${PREFIX}${name}`, help);
  const restarts = counter("restarts_total", "Workloads restarted");
  const conflicts = counter(
    "restart_conflicts_total",
    "Restarts that met another change of the workload; each is tried again",
  );
  const forbidden = counter("restarts_refused_total", "Restarts that the API server refused");
  const failed = counter("rollout_failures_total", "Restarts whose rollout failed");
  const reverted = counter("restarts_reverted_total", "Restarts that the workload's owner reverted");
  return {
    restarted: () => restarts.inc(),
    conflict: () => conflicts.inc(),
    forbidden: () => forbidden.inc(),
    outcome(outcome) {
      if (outcome === "failed") failed.inc();
      if (outcome === "reverted") reverted.inc();
    },
  };
}
