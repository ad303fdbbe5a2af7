import type { RolloutStatus, WorkloadStatus } from "#controller/rollout/report.ts";
import type { FullStatus } from "#controller/status.ts";
import { INJECT_KEY, INJECTED_KEY } from "#hostmap/metadata-keys.ts";
import { statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import { inferFromNames, type Owner, ownerOf } from "#lib/workloads/owners.ts";
import { isOptedIn } from "#lib/workloads/pod-opt-in.ts";
import { NOT_ENDED, podFacts, type RawPod } from "#lib/workloads/pods.ts";
import { workloadKey } from "#lib/workloads/workload-keys.ts";

/**
 * Adds the pods of a labelled namespace that the controller does not watch, with the caller's rights: the pods that ran
 * before the namespace got its label. In a listed namespace the controller watches all pods. Without the right to list
 * pods, and for a namespace without the label, nothing is added.
 */
export async function withUnwatched(
  client: Pick<KubeClient, "get" | "list">,
  status: FullStatus,
  namespace: string,
): Promise<FullStatus> {
  const { running } = status;
  if (running === undefined) return status;
  const pods = await unlabelledPods(client, namespace);
  const groups = new Map<string, { readonly owner: Owner; count: number }>();
  for (const pod of pods) {
    const facts = podFacts(pod);
    const rules = { excluded: new Set<string>(), listed: new Set<string>() };
    if (facts.terminating || !isOptedIn(facts, { inject: "enabled", onChange: undefined }, rules)) continue;
    const owner = ownerOf(facts, inferFromNames);
    const group = groups.get(owner.key) ?? { owner, count: 0 };
    group.count += 1;
    groups.set(owner.key, group);
  }
  const workloads = running.workloads.map((known) => {
    const more = groups.get(workloadKey(known));
    groups.delete(workloadKey(known));
    // The controller watches this namespace, and has counted the pods.
    return more === undefined || known.notInjected > 0 ? known : stale(known, more.count);
  });
  for (const { owner, count } of groups.values()) workloads.push(stale(unwatched(owner), count));
  const counts = running.counts && countsWith(running.counts, workloads.length - running.workloads.length);
  return { ...status, running: { ...running, workloads, ...(counts && { counts }) } };
}

async function unlabelledPods(client: Pick<KubeClient, "get" | "list">, namespace: string): Promise<RawPod[]> {
  try {
    const { metadata } = await client.get<ApiObject>(corePath("namespaces", undefined, namespace));
    if (metadata?.labels?.[INJECT_KEY] !== "enabled") return [];
    const query = { labelSelector: `!${INJECT_KEY},!${INJECTED_KEY}`, fieldSelector: NOT_ENDED };
    return (await client.list<RawPod>(corePath("pods", namespace), query)).items;
  } catch (error) {
    if (statusOf(error) !== 403 && statusOf(error) !== 404) throw error;
    return [];
  }
}

function unwatched({ namespace, kind, name, unrestartable }: Owner): WorkloadStatus {
  const reason = unrestartable ?? {
    code: "restart-not-permitted",
    text: `${namespace} is not in restart.namespaces or optIn.namespaces; restart the workload by hand`,
  };
  const none = { pods: 0, stale: 0, notInjected: 0, lastRestart: undefined, warnings: [] };
  return { namespace, kind, name, ...none, mode: "restart", modeFrom: "install", standing: "stuck", ...reason };
}

function stale(known: WorkloadStatus, count: number): WorkloadStatus {
  const { namespace, kind, name, unrestartable } = { unrestartable: undefined, ...known };
  const { standing, code, text } = unwatched({ namespace, kind, name, key: workloadKey(known), unrestartable });
  const reason = known.standing === "in-step" ? { standing, code, text } : {};
  const { pods, stale: before, notInjected } = known;
  return { ...known, pods: pods + count, stale: before + count, notInjected: notInjected + count, ...reason };
}

function countsWith(counts: RolloutStatus["counts"], more: number): RolloutStatus["counts"] {
  return { ...counts, workloads: counts.workloads + more };
}
