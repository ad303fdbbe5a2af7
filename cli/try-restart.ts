import type { Reason } from "#hostmap/types.ts";
import { describeError, SwitchbackError, statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { readAndRestart } from "#lib/workloads/restart.ts";
import type { WorkloadName } from "#lib/workloads/workload-keys.ts";
import type { RawWorkload, WorkloadState } from "#lib/workloads/workload-state.ts";

interface RestartOptions {
  /** The field manager of the restart, in the workload's managedFields. */
  readonly fieldManager: string;
  /** Returns the caller's reason not to restart the workload that was read. */
  readonly refuse: (state: WorkloadState, raw: RawWorkload) => Reason | undefined;
}

/** Why a workload was not restarted. */
interface Refusal extends Reason {
  /** Whether it does not exist. */
  readonly isGone?: boolean;
}

/**
 * Restarts a Deployment, StatefulSet or DaemonSet with the caller's rights, for `restart` and `uninstall`. Returns
 * undefined if it is restarted, else why not: the workload's own reason, the caller's, or an error of the API server.
 */
export async function tryRestart(
  client: KubeClient,
  { namespace, kind, name }: WorkloadName,
  options: RestartOptions,
): Promise<Refusal | undefined> {
  try {
    const stamp = () => new Date(Date.now()).toISOString();
    const outcome = await readAndRestart(client, { namespace, kind, name }, { ...options, stamp });
    if (outcome.result === "refused") return outcome.reason;
    if (outcome.result !== "restarted") throw outcome.error;
    return undefined;
  } catch (error) {
    if (!(error instanceof SwitchbackError)) throw error;
    const right = `you need permission to get and patch ${kind}s in ${namespace}: `;
    const text = `${statusOf(error) === 403 ? right : ""}${describeError(error)}`;
    return { code: "restart-failed", text, isGone: statusOf(error) === 404 };
  }
}
