import { INJECT_KEY } from "#hostmap/metadata-keys.ts";
import { isNamespaceOptedIn, type OptInRules } from "#hostmap/opt-in.ts";
import { listSome } from "#lib/errors/printable.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import type { NamespaceFacts } from "#lib/workloads/namespaces.ts";
import { NOT_ENDED, podFacts, type RawPod } from "#lib/workloads/pods.ts";
import { type Fact, readFact } from "./fact.ts";
import { objectKey, type PodInfo } from "./facts.ts";

/** Lists the pods of opted-in namespaces and the pods that opted in themselves. The cluster may have many others. */
export async function gatherPods(
  client: KubeClient,
  namespaces: Fact<ReadonlyMap<string, NamespaceFacts>>,
  rules: OptInRules,
): Promise<Fact<readonly PodInfo[]>> {
  if (!namespaces.known) return namespaces;
  const optedIn = [...namespaces.value].filter(([name, { inject }]) => isNamespaceOptedIn(name, inject, rules));
  return await readFact({ verb: "list", resource: "pods" }, async () => {
    const lists = await Promise.all([
      client.list<RawPod>(corePath("pods"), { labelSelector: `${INJECT_KEY}=enabled`, fieldSelector: NOT_ENDED }),
      ...optedIn.map(([name]) => client.list<RawPod>(corePath("pods", name), { fieldSelector: NOT_ENDED })),
    ]);
    const pods = lists.flatMap(({ items }) => items.flatMap(podInfo));
    return [...new Map(pods.map((pod) => [objectKey(pod), pod])).values()];
  });
}

/** Empty for a pod that is being deleted: another pod usually replaces it. */
function podInfo(pod: RawPod): PodInfo[] {
  const { namespace, name, terminating } = podFacts(pod);
  if (terminating) return [];
  const { labels = {}, annotations = {} } = pod.metadata ?? {};
  return [{ namespace, name, labels, annotations }];
}

/** Maximum number of pods in a finding. */
const MAX_LISTED = 5;

/** The names of the first pods, and the number of the others. */
export function listPods(pods: readonly PodInfo[]): string {
  return listSome(pods, MAX_LISTED, objectKey);
}
