import { type EffectiveOnChange, effectiveOnChange } from "#hostmap/on-change.ts";
import { isByDns } from "#hostmap/pod-dns-marks.ts";
import { optInRules } from "#lib/config/opt-in.ts";
import type { Config } from "#lib/config/schema.ts";
import { isOptedIn, type NamespaceFacts } from "#lib/workloads/namespaces.ts";
import type { LiveMode } from "./hosts-reconciler.ts";
import type { NodeNamespaces } from "./node-namespaces.ts";
import type { NodePod } from "./node-pod.ts";
import type { OwnerAnnotation } from "./owner-annotations.ts";

interface LiveModeDeps {
  readonly config: Pick<Config, "namespace" | "pods" | "optIn">;
  readonly namespaces: Pick<NodeNamespaces, "get" | "synced">;
  /** Returns the annotation of a pod's workload. Called only if the mode depends on it. */
  readonly onChangeOf: (pod: NodePod) => OwnerAnnotation;
  /** Returns the facts of a namespace that is not watched. Undefined if not known yet. */
  readonly namespaceOf: (name: string) => NamespaceFacts | undefined;
}

/** Creates the function that decides whether a pod opted in and follows the map through its hosts file. */
export function createLiveMode({
  config,
  namespaces,
  onChangeOf,
  namespaceOf,
}: LiveModeDeps): (pod: NodePod) => LiveMode {
  const rules = optInRules(config);
  const decide = (pod: NodePod): LiveMode => {
    if (!namespaces.synced) return "unknown";
    const namespace = namespaces.get(pod.namespace) ?? namespaceOf(pod.namespace);
    if (namespace === undefined) return "unknown";
    if (!isOptedIn(pod, namespace, rules)) return "no";
    const own = { pod: pod.onChange, workload: undefined, namespace: undefined, fallback: config.pods.onChange };
    const byPod = effectiveOnChange(own);
    if (byPod.from === "pod") return liveOrNo(byPod);
    const workload = onChangeOf(pod);
    if (!workload.known) return "unknown";
    const byWorkload = effectiveOnChange({ ...own, workload: workload.onChange });
    if (byWorkload.from === "workload") return liveOrNo(byWorkload);
    return liveOrNo(effectiveOnChange({ ...own, workload: workload.onChange, namespace: namespace.onChange }));
  };
  // The resolvers of a pod with pod DNS follow the map.
  return (pod) => (isByDns(pod.revision) ? "no" : decide(pod));
}

function liveOrNo({ mode }: EffectiveOnChange): LiveMode {
  return mode === "live" ? "live" : "no";
}
