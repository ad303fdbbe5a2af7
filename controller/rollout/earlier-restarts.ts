import { describeError, statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { Fence } from "#lib/kube/fence.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { partsOf } from "#lib/workloads/workload-keys.ts";
import { isWorkloadKind, workloadPath } from "#lib/workloads/workload-kinds.ts";
import type { RestartRecords } from "./restart-records.ts";

interface EarlierRestartsDeps {
  readonly client: Pick<KubeClient, "list">;
  /** The fence of the leader's term. */
  readonly fence: Fence;
  readonly log: Logger;
  /** The namespaces whose workloads may be restarted. */
  readonly namespaces: readonly string[];
}

/**
 * Gives a new version to every workload whose restart has no outcome. An earlier leader may have been suspended
 * between its record and its patch. That patch names the older version, so it is refused from now on. Throws if the
 * API server does not answer. Reports a workload that cannot be written.
 */
export async function outdateEarlierPatches(
  records: RestartRecords,
  deps: EarlierRestartsDeps,
  signal: AbortSignal,
): Promise<void> {
  for (const { workload, restarts } of records.all()) {
    const last = restarts.at(-1);
    if (last === undefined || last.outcome !== undefined) continue;
    signal.throwIfAborted();
    await outdate(workload, last.uid, deps);
  }
}

async function outdate(workload: string, uid: string, deps: EarlierRestartsDeps): Promise<void> {
  const { client, fence, log, namespaces } = deps;
  const { namespace, kind, name } = partsOf(workload);
  if (!isWorkloadKind(kind) || !namespaces.includes(namespace)) return;
  const path = workloadPath(namespace, kind, name);
  try {
    const query = { fieldSelector: `metadata.name=${name}` };
    const found = (await client.list<ApiObject>(workloadPath(namespace, kind), query)).items[0]?.metadata;
    // If another object has the name, its uid differs, and the patch is refused anyway.
    if (found?.uid === uid) await fence.take({ apiVersion: "apps/v1", kind, namespace, name, path }, found);
  } catch (error) {
    const status = statusOf(error);
    if (status === undefined || status >= 500 || status === 429) throw error;
    // A conflict means that another change has already outdated the patch.
    if (status !== 409) log.warn({ code: "restart-not-outdated", workload }, describeError(error));
  }
}
