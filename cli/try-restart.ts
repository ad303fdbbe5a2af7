import { describeError, SwitchbackError, statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { restartWorkload } from "#lib/workloads/restart.ts";
import type { WorkloadName } from "#lib/workloads/workload-keys.ts";
import { workloadPath } from "#lib/workloads/workload-kinds.ts";
import { type RawWorkload, type WorkloadState, workloadState } from "#lib/workloads/workload-state.ts";

interface RestartOptions {
  /** The field manager of the restart, in the workload's managedFields. */
  readonly fieldManager: string;
  /** Returns the caller's reason not to restart the workload that was read. */
  readonly refuse: (state: WorkloadState, raw: RawWorkload) => string | undefined;
}

/**
 * Controllers update a workload's status at any time. Each update is a conflict for a restart that is based on the
 * state before it.
 */
const MAX_READS = 10;

/**
 * Restarts a Deployment, StatefulSet or DaemonSet with the caller's rights, for `restart` and `uninstall`. Returns
 * undefined if it is restarted, else why not: the caller's reason, the workload's own, or an error of the API server.
 * `isGone`: it does not exist.
 */
export async function tryRestart(
  client: KubeClient,
  workload: WorkloadName,
  { fieldManager, refuse }: RestartOptions,
): Promise<{ readonly text: string; readonly isGone?: boolean } | undefined> {
  const { namespace, kind, name } = workload;
  try {
    for (let reads = 1; ; reads++) {
      const raw = await client.get<RawWorkload>(workloadPath(namespace, kind, name));
      const state = workloadState(kind, raw);
      const against = refuse(state, raw);
      if (against !== undefined) return { text: against };
      const stamp = new Date(Date.now()).toISOString();
      const outcome = await restartWorkload(client, workload, state, { stamp, fieldManager });
      if (outcome.result === "restarted") return undefined;
      if (outcome.result === "refused") return { text: outcome.reason.text };
      if (outcome.result !== "conflict" || reads === MAX_READS) throw outcome.error;
    }
  } catch (error) {
    if (!(error instanceof SwitchbackError)) throw error;
    const right = `you need permission to get and patch ${kind}s in ${namespace}: `;
    return { text: `${statusOf(error) === 403 ? right : ""}${describeError(error)}`, isGone: statusOf(error) === 404 };
  }
}
