import { stamp } from "#controller/rollout/restart-history.ts";
import type { WorkloadStatus } from "#controller/rollout/rollout-status.ts";
import { describeError, hasCode, SwitchbackError, statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { pause } from "#lib/kube/time.ts";
import { type RestartableName, readAndRestart } from "#lib/workloads/restart.ts";
import { type WorkloadKind, workloadPath } from "#lib/workloads/workload-kinds.ts";
import { type RawWorkload, type WorkloadState, workloadState } from "#lib/workloads/workload-state.ts";

/** `against`: it was not restarted, for a reason of its own. `failed`: no further workload is to be restarted. */
export interface Restarted {
  readonly came: "restarted" | "already" | "against" | "failed";
  readonly text: string;
}

const POLL_MS = 500;
/** Answers that concern this workload alone, or the caller's permissions. */
const REFUSALS: readonly (number | undefined)[] = [403, 404, 409, 422];
const UNDER_WAY = { code: "under-way", text: "it is being restarted already" };

/**
 * Restarts one workload unless something is against it, or it is being restarted, and waits until it is rolled out.
 * `report` gets what is still missing, whenever that is known.
 */
export async function restartOne(
  client: KubeClient,
  workload: WorkloadStatus,
  timeoutMs: number,
  report: (missing: string) => void,
): Promise<Restarted> {
  const kind = workload.kind as WorkloadKind;
  const read = async () => {
    const path = workloadPath(workload.namespace, kind, workload.name);
    const state = workloadState(kind, await client.get<RawWorkload>(path));
    if (state.unsettled !== undefined) report(state.unsettled);
    return state;
  };
  try {
    const isNew = await begin(client, { namespace: workload.namespace, kind, name: workload.name }, (state) =>
      isUnderWay(workload, state, Date.now() - timeoutMs),
    );
    const failure = await rollOut(read, timeoutMs);
    if (failure !== undefined) return { came: "failed", text: `is restarted, and not rolled out: ${failure}` };
    return isNew
      ? { came: "restarted", text: "is restarted" }
      : { came: "already", text: "was being restarted already" };
  } catch (error) {
    if (!hasCode(error, "input-invalid") && !REFUSALS.includes(statusOf(error))) throw error;
    const right = `it takes the rights get and patch of ${kind}s in ${workload.namespace}: `;
    const why = `${statusOf(error) === 403 ? right : ""}${describeError(error)}`;
    return { came: "against", text: `was not restarted: ${why}` };
  }
}

/** False: it is being restarted already. Throws unless it is restarted. */
async function begin(
  client: KubeClient,
  workload: RestartableName,
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

/** By the leader's account, or by the stamp of a restart that may still come to its end. */
function isUnderWay({ code }: WorkloadStatus, state: WorkloadState, since: number): boolean {
  if (code === "restarting" || code === "restarted") return true;
  return state.unsettled !== undefined && !state.failed && Date.parse(state.restartedAt ?? "") > since;
}

/** Why it is not rolled out, once that is certain or has taken too long. */
async function rollOut(read: () => Promise<WorkloadState>, timeoutMs: number): Promise<string | undefined> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const { unsettled, failed } = await read();
    if (unsettled === undefined || failed || performance.now() > deadline) return unsettled;
    await pause(POLL_MS, new AbortController().signal);
  }
}
