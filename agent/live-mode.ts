import { type Config, excludedNamespaces } from "../config/schema.ts";
import { effectiveOnChange } from "../hostmap/on-change.ts";
import type { Informer } from "../kube/watch.ts";
import type { NamespaceFacts } from "../workloads/namespaces.ts";
import { isOptedIn } from "../workloads/pod-opt-in.ts";
import type { LiveMode } from "./hosts-reconciler.ts";
import type { NodePod } from "./node-pod.ts";
import type { OwnerAnnotation } from "./owner-annotations.ts";

interface LiveModeDeps {
  readonly config: Pick<Config, "namespace" | "pods">;
  readonly namespaces: Pick<Informer<NamespaceFacts>, "objects"> & { readonly state: { readonly synced: boolean } };
  /** The annotation of a pod's workload. Called only if the answer depends on it. */
  readonly onChangeOf: (pod: NodePod) => OwnerAnnotation;
}

/** Decides whether a pod opted in and follows the map by its hosts file. */
export function createLiveMode({ config, namespaces, onChangeOf }: LiveModeDeps): (pod: NodePod) => LiveMode {
  const excluded = excludedNamespaces(config);
  return (pod) => {
    if (!namespaces.state.synced) return "unknown";
    const namespace = namespaces.objects().get(pod.namespace);
    if (!isOptedIn(pod, namespace, excluded)) return "no";
    const annotations = {
      pod: pod.onChange,
      workload: undefined,
      namespace: namespace?.onChange,
      fallback: config.pods.onChange,
    };
    const withoutWorkload = effectiveOnChange(annotations);
    if (withoutWorkload.from === "pod") return withoutWorkload.mode === "live" ? "live" : "no";
    const workload = onChangeOf(pod);
    if (!workload.known) return "unknown";
    return effectiveOnChange({ ...annotations, workload: workload.onChange }).mode === "live" ? "live" : "no";
  };
}
