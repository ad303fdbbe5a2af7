import { Counter, Gauge, type Registry } from "prom-client";
import type { RestartCounters } from "./event-reporter.ts";
import type { RolloutStatus } from "./rollout-status.ts";

/** Registers the metrics of rollouts. `status` is read at each scrape and is undefined on a follower. */
export function registerRolloutMetrics(registry: Registry, status: () => RolloutStatus | undefined): RestartCounters {
  const registers = [registry];
  const pods = new Gauge({
    name: "switchback_controller_opted_in_pods",
    help: "Running opted-in pods: all, those without the current names, and those that the webhook did not inject",
    labelNames: ["state"],
    registers,
    collect: () => fill(status()),
  });
  const workloads = new Gauge({
    name: "switchback_controller_workloads",
    help: "Owners of opted-in pods by standing (in-step, waiting, left, stuck) and the reason's code",
    labelNames: ["standing", "code"],
    registers,
  });
  const waiting = new Gauge({
    name: "switchback_controller_restarts_waiting",
    help: "Workloads that are waiting for a restart",
    registers,
  });

  function fill(running: RolloutStatus | undefined): void {
    const all = running?.workloads ?? [];
    const sum = (of: (workload: (typeof all)[number]) => number) => all.reduce((total, each) => total + of(each), 0);
    pods.set(
      { state: "all" },
      sum((each) => each.pods),
    );
    pods.set(
      { state: "stale" },
      sum((each) => each.stale),
    );
    pods.set(
      { state: "not-injected" },
      sum((each) => each.notInjected),
    );
    workloads.reset();
    for (const { standing, code } of all) workloads.inc({ standing, code });
    waiting.set(running?.waiting ?? 0);
  }

  const counter = (name: string, help: string) => new Counter({ name, help, registers });
  const restarts = counter("switchback_controller_restarts_total", "Workloads restarted");
  const conflicts = counter(
    "switchback_controller_restart_conflicts_total",
    "Restarts that conflicted with another change of the workload",
  );
  const forbidden = counter("switchback_controller_restarts_refused_total", "Restarts that the API server refused");
  const failed = counter("switchback_controller_rollout_failures_total", "Restarts whose rollout failed");
  const reverted = counter(
    "switchback_controller_restarts_reverted_total",
    "Restarts that the workload's owner reverted",
  );
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
