import assert from "node:assert/strict";
import { test } from "node:test";
import { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import { addRolloutGauges, type RolloutMetricsInput, restartCounters } from "./metrics.ts";

const PREFIX = "switchback_controller_";

/** All samples of a scrape, by name without the prefix, as Prometheus reads them. */
async function scrape(registry: MetricsRegistry): Promise<Record<string, number>> {
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

test("pods by state, workloads by decision, and waiting restarts are read at each scrape", async () => {
  const registry = new MetricsRegistry();
  let counts: RolloutMetricsInput | undefined = {
    shed: 3,
    updaters: { alive: 5, silent: 2, absent: 0 },
    workloads: 14,
    pods: 11,
    stale: 5,
    notInjected: 2,
    decisions: [
      { standing: "in-step", code: "in-step", workloads: 1 },
      { standing: "waiting", code: "its-turn", workloads: 6 },
      { standing: "waiting", code: "debouncing", workloads: 1 },
      { standing: "waiting", code: "live", workloads: 4 },
      { standing: "stuck", code: "bare-pod", workloads: 2 },
    ],
  };
  restartCounters(registry);
  addRolloutGauges(registry, () => counts);
  assert.deepEqual(await scrape(registry), {
    'opted_in_pods{state="all"}': 11,
    'opted_in_pods{state="stale"}': 5,
    'opted_in_pods{state="not-injected"}': 2,
    'workloads{standing="in-step",code="in-step"}': 1,
    'workloads{standing="waiting",code="its-turn"}': 6,
    'workloads{standing="waiting",code="debouncing"}': 1,
    'workloads{standing="waiting",code="live"}': 4,
    'workloads{standing="stuck",code="bare-pod"}': 2,
    restarts_waiting: 7,
    pods_shed: 3,
    'agents{state="alive"}': 5,
    'agents{state="silent"}': 2,
    'agents{state="absent"}': 0,
    ...NOTHING_COUNTED,
  });
  const decisions = [{ standing: "in-step", code: "in-step", workloads: 1 }] as const;
  counts = { shed: 0, updaters: undefined, workloads: 1, pods: 1, stale: 0, notInjected: 0, decisions };
  const after = { ...NO_PODS, 'opted_in_pods{state="all"}': 1, 'workloads{standing="in-step",code="in-step"}': 1 };
  assert.deepEqual(await scrape(registry), { ...after, restarts_waiting: 0, pods_shed: 0, ...NOTHING_COUNTED });
  // A former leader no longer reports its counts.
  counts = undefined;
  assert.deepEqual(await scrape(registry), NOTHING_COUNTED);
});

test("restarts, conflicts, refusals, failed rollouts and reverted restarts have separate counters", async () => {
  const registry = new MetricsRegistry();
  const counters = restartCounters(registry);
  addRolloutGauges(registry, () => undefined);
  const times = (count: number, move: () => void) => Array.from({ length: count }, move);
  times(5, counters.restarted);
  times(4, counters.conflict);
  times(3, counters.forbidden);
  times(2, () => counters.outcome("failed"));
  counters.outcome("reverted");
  counters.outcome("done");
  assert.deepEqual(await scrape(registry), {
    restarts_total: 5,
    restart_conflicts_total: 4,
    restarts_refused_total: 3,
    rollout_failures_total: 2,
    restarts_reverted_total: 1,
  });
});
