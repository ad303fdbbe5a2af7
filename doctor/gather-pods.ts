import { INJECT_KEY } from "../hostmap/metadata-keys.ts";
import type { KubeClient } from "../kube/client.ts";
import { corePath } from "../kube/paths.ts";
import type { ObjectMeta } from "../kube/types.ts";
import { ownerOf } from "../workloads/owners.ts";
import { podFacts as metadataFacts } from "../workloads/pods.ts";
import type { NamespaceInfo, PodInfo } from "./facts.ts";
import { objectKey } from "./facts.ts";
import { type Known, learn } from "./known.ts";

interface RawPod {
  readonly metadata: ObjectMeta;
  readonly spec?: { readonly nodeName?: string; readonly hostAliases?: readonly { readonly ip?: string }[] | null };
}

/** A pod that has ended resolves nothing any more. */
const ALIVE = "status.phase!=Succeeded,status.phase!=Failed";

/** Pods of opted-in namespaces, and pods that opted in themselves. Not all of the cluster: there may be many. */
export async function gatherPods(
  client: KubeClient,
  namespaces: Known<readonly NamespaceInfo[]>,
): Promise<Known<readonly PodInfo[]>> {
  if (!namespaces.known) return namespaces;
  const optedIn = namespaces.value.filter(({ labels }) => labels[INJECT_KEY] === "enabled");
  return await learn({ verb: "list", resource: "pods" }, async () => {
    const lists = await Promise.all([
      client.list<RawPod>(corePath("pods"), { labelSelector: `${INJECT_KEY}=enabled`, fieldSelector: ALIVE }),
      ...optedIn.map(({ name }) => client.list<RawPod>(corePath("pods", name), { fieldSelector: ALIVE })),
    ]);
    // What is being deleted is being made anew, mostly.
    const staying = lists.flatMap(({ items }) =>
      items.filter(({ metadata }) => metadata.deletionTimestamp === undefined),
    );
    const pods = staying.map(podFacts);
    return [...new Map(pods.map((pod) => [objectKey(pod), pod])).values()];
  });
}

function podFacts({ metadata, spec }: RawPod): PodInfo {
  return {
    namespace: metadata.namespace ?? "",
    name: metadata.name ?? "",
    // ReplicaSets are not read for this: a Deployment's name is told from theirs.
    owner: ownerOf(metadataFacts({ metadata }), () => undefined).key,
    labels: metadata.labels ?? {},
    annotations: metadata.annotations ?? {},
    node: spec?.nodeName ?? "",
    aliasAddresses: (spec?.hostAliases ?? []).flatMap(({ ip }) => ip ?? []),
  };
}
