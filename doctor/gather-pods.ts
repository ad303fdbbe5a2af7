import { withoutManaged } from "#hostmap/managed-aliases.ts";
import { INJECT_KEY, OWNED_KEY } from "#hostmap/metadata-keys.ts";
import { isNamespaceOptedIn, type OptInRules } from "#hostmap/opt-in.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import type { NamespaceFacts } from "#lib/workloads/namespaces.ts";
import { ownerOf } from "#lib/workloads/owners.ts";
import { hostAliasesOf, NOT_ENDED, podFacts, type RawPod } from "#lib/workloads/pods.ts";
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
  const facts = podFacts(pod);
  if (facts.terminating) return [];
  const { namespace, name } = facts;
  const owner = ownerOf(facts).key;
  const { labels = {}, annotations = {} } = pod.metadata ?? {};
  const aliases = hostAliasesOf(pod);
  const aliasAddresses = aliases.map(({ ip }) => ip);
  const ownNames = withoutManaged(aliases, annotations[OWNED_KEY]).flatMap(({ hostnames }) => hostnames);
  const info = { namespace, name, owner, labels, annotations, node: pod.spec?.nodeName ?? "", aliasAddresses };
  return [ownNames.length === 0 ? info : { ...info, ownNames }];
}
