import type { Restart } from "#controller/rollout/restart-history.ts";
import type { WorkloadFacts } from "#controller/rollout/workload-facts.ts";
import type { WorkloadState } from "#lib/workloads/workload-state.ts";

/** The time of a decision, in milliseconds since 1970. */
export const NOW = 1_700_000_000_000;

/** A successful restart of the workload in `state`. */
export function restart(at: number, more: Partial<Restart> = {}): Restart {
  return { at, from: ["old"], to: `new-${at}`, uid: "u", generation: 1, outcome: "done", ...more };
}

/** A workload that is rolled out and was never restarted. */
export const state: WorkloadState = {
  uid: "u",
  resourceVersion: "1",
  generation: 1,
  restartedAt: undefined,
  onChange: undefined,
  refusal: undefined,
  unsettled: undefined,
  failed: false,
};

/** A workload that nothing prevents from being restarted. */
export function workload(more: Partial<WorkloadFacts> = {}): WorkloadFacts {
  return {
    key: "shop/Deployment/web",
    namespace: "shop",
    kind: "Deployment",
    unrestartable: undefined,
    permitted: true,
    state,
    mode: "restart",
    updaters: undefined,
    stale: [{ revision: "old", restartedAt: undefined }],
    to: "new",
    since: 0,
    changingSince: 0,
    staleSince: 0,
    diff: { missing: 1, extra: 0 },
    notBefore: 0,
    history: [],
    ...more,
  };
}
