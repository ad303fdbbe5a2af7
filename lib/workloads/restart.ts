import { RESTARTED_KEY, RESTARTS_KEY } from "#hostmap/metadata-keys.ts";
import type { Reason } from "#hostmap/types.ts";
import { statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { pause, steadyNow } from "#lib/kube/time.ts";
import type { WorkloadName } from "./workload-keys.ts";
import { workloadPath } from "./workload-kinds.ts";
import type { RawWorkload, WorkloadState } from "./workload-state.ts";

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

const RESULTS: Readonly<Record<number, "conflict" | "gone" | "forbidden">> = {
  // An admission webhook that denies and gives no code.
  400: "forbidden",
  409: "conflict",
  404: "gone",
  403: "forbidden",
  422: "forbidden",
};

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

interface WaitOptions {
  readonly timeoutMs: number;
  /** Called with what is missing, while the wait goes on, and each time that it has changed. */
  readonly report?: (missing: string) => void;
}

/** Time between two looks, milliseconds. */
const POLL_MS = 2_000;

/**
 * Waits until nothing is missing, until `look` says that the restart has failed, or until the timeout. Returns what is
 * still missing. Throws what `look` throws.
 */
export async function waitForRestart(
  look: () => Promise<{ readonly missing: string | undefined; readonly hasFailed?: boolean }>,
  { timeoutMs, report }: WaitOptions,
): Promise<string | undefined> {
  const until = steadyNow() + timeoutMs;
  let reported: string | undefined;
  for (;;) {
    const { missing, hasFailed } = await look();
    if (missing === undefined || hasFailed || steadyNow() >= until) return missing;
    if (missing !== reported) report?.(missing);
    reported = missing;
    await pause(Math.min(POLL_MS, timeoutMs));
  }
}
