import { RESTARTED_KEY, RESTARTS_KEY } from "#hostmap/metadata-keys.ts";
import type { Reason } from "#hostmap/types.ts";
import { statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { pause } from "#lib/kube/time.ts";
import type { WorkloadName } from "./workload-keys.ts";
import { workloadPath } from "./workload-kinds.ts";
import { type RawWorkload, type WorkloadState, workloadState } from "./workload-state.ts";

type RestartResult =
  | { readonly result: "restarted"; readonly workload: RawWorkload }
  /** Nothing was sent: the workload must not be restarted. */
  | { readonly result: "refused"; readonly reason: Reason }
  /**
   * `conflict`: the workload changed since it was read. `forbidden`: a right is missing, or an admission plugin
   * refused.
   */
  | { readonly result: "conflict" | "gone" | "forbidden"; readonly error: unknown };

interface RestartOptions {
  /** Value of the annotation `switchback.dev/restartedAt`: RFC 3339. */
  readonly stamp: string;
  /** Value of the annotation `switchback.dev/restarts` of the workload itself. Default: it stays. */
  readonly record?: string;
  /** The field manager of the restart, in the workload's managedFields. */
  readonly fieldManager: string;
  readonly signal?: AbortSignal;
}

interface RereadOptions extends Omit<RestartOptions, "stamp" | "record"> {
  readonly stamp: () => string;
  /**
   * Returns the reason not to restart the workload that was read. It is called before the workload's own refusals are
   * checked.
   */
  readonly refuse?: (state: WorkloadState, raw: RawWorkload) => Reason | undefined;
}

const RESULTS: Readonly<Record<number, "conflict" | "gone" | "forbidden">> = {
  // An admission webhook that denies and gives no code.
  400: "forbidden",
  409: "conflict",
  404: "gone",
  403: "forbidden",
  422: "forbidden",
};

/**
 * Controllers update a workload's status at any time. Each update is a conflict for a restart that is based on the
 * state before it.
 */
const MAX_READS = 10;

/**
 * Restarts a workload as `kubectl rollout restart` does, but only in the state that was read. A newer version, or
 * another object of the same name, is a conflict. Throws if the outcome is uncertain.
 */
export async function restartWorkload(
  client: Pick<KubeClient, "mergePatch">,
  { namespace, kind, name }: WorkloadName,
  { uid, resourceVersion, refusal }: WorkloadState,
  { stamp, record, ...options }: RestartOptions,
): Promise<RestartResult> {
  if (refusal !== undefined) return { result: "refused", reason: refusal };
  const template = { metadata: { annotations: { [RESTARTED_KEY]: stamp } } };
  const annotations = record === undefined ? {} : { annotations: { [RESTARTS_KEY]: record } };
  const body = { metadata: { uid, resourceVersion, ...annotations }, spec: { template } };
  try {
    const path = workloadPath(namespace, kind, name);
    return { result: "restarted", workload: await client.mergePatch<RawWorkload>(path, body, options) };
  } catch (error) {
    const result = RESULTS[statusOf(error) ?? 0];
    if (result === undefined) throw error;
    return { result, error };
  }
}

/**
 * Reads a workload and restarts it. After a conflict it tries again with a new read, at most ten times. Throws the
 * error of a read, including a `kube-status` of 404 if the workload does not exist. Also throws if the outcome is
 * uncertain.
 */
export async function readAndRestart(
  client: Pick<KubeClient, "get" | "mergePatch">,
  workload: WorkloadName,
  { stamp, refuse, ...options }: RereadOptions,
): Promise<RestartResult> {
  const { namespace, kind, name } = workload;
  for (let reads = 1; ; reads++) {
    const raw = await client.get<RawWorkload>(workloadPath(namespace, kind, name));
    const state = workloadState(kind, raw);
    const reason = refuse?.(state, raw);
    if (reason !== undefined) return { result: "refused", reason };
    const outcome = await restartWorkload(client, workload, state, { stamp: stamp(), ...options });
    if (outcome.result !== "conflict" || reads === MAX_READS) return outcome;
  }
}

interface WaitOptions {
  /** A monotonic clock, and the times between two looks and of the whole wait, in milliseconds. */
  readonly now: () => number;
  readonly pollMs: number;
  readonly timeoutMs: number;
  /** Called with what is missing, while the wait goes on. */
  readonly report: (missing: string) => void;
  readonly signal?: AbortSignal;
}

/**
 * Waits until nothing is missing, until `look` says that the restart has failed, or until the timeout. Returns what is
 * still missing. Throws the reason of `signal`, and what `look` throws.
 */
export async function waitForRestart(
  look: () => Promise<{ readonly missing: string | undefined; readonly hasFailed?: boolean }>,
  { now, pollMs, timeoutMs, report, signal }: WaitOptions,
): Promise<string | undefined> {
  const until = now() + timeoutMs;
  for (;;) {
    const { missing, hasFailed } = await look();
    if (missing === undefined || hasFailed || now() >= until) return missing;
    report(missing);
    await pause(Math.min(pollMs, timeoutMs), signal);
    signal?.throwIfAborted();
  }
}
