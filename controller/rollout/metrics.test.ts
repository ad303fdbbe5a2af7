import assert from "node:assert/strict";
import { test } from "node:test";
import { Registry } from "prom-client";
import { registerRolloutMetrics } from "./metrics.ts";
import type { RolloutStatus, WorkloadStatus } from "./rollout-status.ts";

function workload(standing: WorkloadStatus["standing"], code: string, parts: Partial<WorkloadStatus> = {}) {
  const base = { namespace: "shop", kind: "Deployment", name: "web", pods: 1, stale: 0, notInjected: 0 };
  const more = { mode: "restart", modeFrom: "install", text: "", lastRestart: undefined, warnings: [] } as const;
  return { ...base, ...more, standing, code, ...parts };
}

function running(workloads: readonly WorkloadStatus[], waiting = 0): RolloutStatus {
  const quiet = { unknown: undefined, dryRun: false, underWay: undefined, restartsLastHour: 0, restartsToday: 0 };
  return { ...quiet, waiting, workloads };
}

const PREFIX = "switchback_controller_";

/** Every sample of a scrape without the prefix of the names: the text that Prometheus reads. */
async function scrape(registry: Registry): Promise<Record<string, number>> {
  const lines = (await registry.metrics()).split("\n").filter((line) => line.startsWith(PREFIX));
  return Object.fromEntries(
    lines.map((line) => {
      const [, sample = "", value] = /^(.*) (\S+)$/.exec(line.slice(PREFIX.length)) ?? [];
      return [sample, Number(value)];
    }),
  );
}

const NOTHING_COUNTED = {
  restarts_total: 0,
  restart_conflicts_total: 0,
  restarts_refused_total: 0,
  rollout_failures_total: 0,
  restarts_reverted_total: 0,
};
const NO_PODS = {
  'opted_in_pods{state="all"}': 0,
  'opted_in_pods{state="stale"}': 0,
  'opted_in_pods{state="not-injected"}': 0,
};

test("pods by state, workloads by standing and reason, and how many wait, each read at the scrape", async () => {
  const registry = new Registry();
  let status: RolloutStatus | undefined = running(
    [
      workload("in-step", "in-step", { pods: 3 }),
      workload("waiting", "its-turn", { pods: 2, stale: 2, notInjected: 1 }),
      workload("stuck", "bare-pod", { pods: 1, stale: 1 }),
      workload("stuck", "bare-pod", { pods: 1, stale: 1, notInjected: 1 }),
      workload("stuck", "did-not-converge", { pods: 4, stale: 1 }),
    ],
    7,
  );
  registerRolloutMetrics(registry, () => status);
  assert.deepEqual(await scrape(registry), {
    'opted_in_pods{state="all"}': 11,
    'opted_in_pods{state="stale"}': 5,
    'opted_in_pods{state="not-injected"}': 2,
    'workloads{standing="in-step",code="in-step"}': 1,
    'workloads{standing="waiting",code="its-turn"}': 1,
    'workloads{standing="stuck",code="bare-pod"}': 2,
    'workloads{standing="stuck",code="did-not-converge"}': 1,
    restarts_waiting: 7,
    ...NOTHING_COUNTED,
  });
  status = running([workload("in-step", "in-step")]);
  const after = { ...NO_PODS, 'opted_in_pods{state="all"}': 1, 'workloads{standing="in-step",code="in-step"}': 1 };
  assert.deepEqual(await scrape(registry), { ...after, restarts_waiting: 0, ...NOTHING_COUNTED });
  // It no longer leads: what it knew is not reported.
  status = undefined;
  assert.deepEqual(await scrape(registry), { ...NO_PODS, restarts_waiting: 0, ...NOTHING_COUNTED });
});

test("restarts, conflicts, refusals, failed rollouts and reverted restarts, each in its own counter", async () => {
  const registry = new Registry();
  const counters = registerRolloutMetrics(registry, () => undefined);
  const times = (count: number, move: () => void) => Array.from({ length: count }, move);
  times(5, counters.restarted);
  times(4, counters.conflict);
  times(3, counters.forbidden);
  times(2, () => counters.outcome("failed"));
  counters.outcome("reverted");
  counters.outcome("done");
  assert.deepEqual(await scrape(registry), {
    ...NO_PODS,
    restarts_waiting: 0,
    restarts_total: 5,
    restart_conflicts_total: 4,
    restarts_refused_total: 3,
    rollout_failures_total: 2,
    restarts_reverted_total: 1,
  });
});
