import type { WorkloadStatus } from "#controller/rollout/report.ts";
import { stamp } from "#controller/rollout/restart-record.ts";
import { describeError, hasCode, SwitchbackError, statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { readAndRestart, waitForRestart } from "#lib/workloads/restart.ts";
import type { WorkloadName } from "#lib/workloads/workload-keys.ts";
import { workloadPath } from "#lib/workloads/workload-kinds.ts";
import { type RawWorkload, type WorkloadState, workloadState } from "#lib/workloads/workload-state.ts";

/**
 * `against`: the workload was not restarted, for a reason that concerns only it. `failed`: no further workload should
 * be restarted.
 */
export interface Restarted {
  readonly came: "restarted" | "already" | "against" | "failed";
  readonly text: string;
}

const POLL_MS = 500;
/** Error statuses that concern only this workload, or the caller's permissions. */
const REFUSALS: readonly (number | undefined)[] = [403, 404, 409, 422];
const UNDER_WAY = { code: "under-way", text: "it is being restarted already" };

/**
 * Restarts one workload, unless there is a reason against it or a restart is under way. Waits until the rollout has
 * finished. Calls `report` with what is still missing, whenever it is known.
 */
export async function restartOne(
  client: KubeClient,
  workload: WorkloadStatus,
  timeoutMs: number,
  report: (missing: string) => void,
): Promise<Restarted> {
  const { kind } = workload;
  const look = async () => {
    const path = workloadPath(workload.namespace, kind, workload.name);
    const { unsettled, failed } = workloadState(kind, await client.get<RawWorkload>(path));
    return { missing: unsettled, hasFailed: failed };
  };
  try {
    const isNew = await begin(client, workload, (state) => isUnderWay(workload, state, Date.now() - timeoutMs));
    const now = () => performance.now();
    const failure = await waitForRestart(look, { now, pollMs: POLL_MS, timeoutMs, report });
    if (failure !== undefined)
      return { came: "failed", text: `was restarted, but the rollout did not finish: ${failure}` };
    return isNew
      ? { came: "restarted", text: "is restarted" }
      : { came: "already", text: "was being restarted already" };
  } catch (error) {
    if (!hasCode(error, "input-invalid") && !REFUSALS.includes(statusOf(error))) throw error;
    const right = `you need permission to get and patch ${kind}s in ${workload.namespace}: `;
    const why = `${statusOf(error) === 403 ? right : ""}${describeError(error)}`;
    return { came: "against", text: `was not restarted: ${why}` };
  }
}

/** Restarts the workload. Returns false if a restart is already under way. Throws if it cannot be restarted. */
async function begin(
  client: KubeClient,
  workload: WorkloadName,
  underWay: (state: WorkloadState) => boolean,
): Promise<boolean> {
  const outcome = await readAndRestart(client, workload, {
    stamp: () => stamp(Date.now()),
    fieldManager: "switchback-cli",
    refuse: (state) => (state.refusal === undefined && underWay(state) ? UNDER_WAY : undefined),
  });
  if (outcome.result === "restarted") return true;
  if (outcome.result !== "refused") throw outcome.error;
  if (outcome.reason === UNDER_WAY) return false;
  throw new SwitchbackError("input-invalid", outcome.reason.text);
}

/** Whether a restart is under way: the leader reports one, or the stamp is of a restart that may still finish. */
function isUnderWay({ code }: WorkloadStatus, state: WorkloadState, since: number): boolean {
  if (code === "restarting") return true;
  return state.unsettled !== undefined && !state.failed && Date.parse(state.restartedAt ?? "") > since;
}
