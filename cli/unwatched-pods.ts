import type { WorkloadStatus } from "#controller/rollout/report.ts";
import type { FullStatus } from "#controller/status.ts";
import { INJECT_KEY, INJECTED_KEY } from "#hostmap/metadata-keys.ts";
import { statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import { notPermitted, type Owner, ownerOf } from "#lib/workloads/owners.ts";
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
  const watched = new Map(running.workloads.map((each) => [workloadKey(each), each]));
  const all = new Map(watched);
  for (const pod of await unlabelledPods(client, namespace)) {
    const facts = podFacts(pod);
    const owner = ownerOf(facts);
    // If the controller counts pods without injection, it watches the namespace.
    if (facts.terminating || facts.mirror || (watched.get(owner.key)?.notInjected ?? 0) > 0) continue;
    const { pods, stale, notInjected, ...known } = all.get(owner.key) ?? unwatched(owner);
    const { standing, code, text } = known.standing === "in-step" ? unwatched(owner) : known;
    const counts = { pods: pods + 1, stale: stale + 1, notInjected: notInjected + 1 };
    all.set(owner.key, { ...known, ...counts, standing, code, text });
  }
  const counts = { ...running.counts, workloads: running.counts.workloads + all.size - watched.size };
  return { ...status, running: { ...running, counts, workloads: [...all.values()] } };
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
  const reason = unrestartable ?? notPermitted(namespace);
  const none = { pods: 0, stale: 0, notInjected: 0, lastRestart: undefined, warnings: [] };
  return { namespace, kind, name, ...none, mode: "restart", modeFrom: "install", standing: "stuck", ...reason };
}
