import type { Config } from "../config/schema.ts";
import { INJECT_KEY, ON_CHANGE_KEY } from "../hostmap/metadata-keys.ts";
import { effectiveOnChange } from "../hostmap/on-change.ts";
import { decideOptIn } from "../hostmap/opt-in.ts";
import type { ApiObject } from "../kube/types.ts";
import type { Informer } from "../kube/watch.ts";
import type { LiveMode } from "./hosts-reconciler.ts";
import { type NodePod, picked } from "./node-pod.ts";
import type { OwnerAnnotation } from "./owners.ts";

/** What is kept of a Namespace. */
export interface NamespaceFacts {
  readonly labels: Readonly<Record<string, string>>;
  readonly onChange: string | undefined;
}

/** Most namespaces say nothing to us: they share one answer. */
const SILENT: NamespaceFacts = { labels: {}, onChange: undefined };

export function namespaceFacts({ metadata }: ApiObject): NamespaceFacts {
  const labels = picked(metadata?.labels, [INJECT_KEY]);
  const onChange = metadata?.annotations?.[ON_CHANGE_KEY];
  return onChange === undefined && Object.keys(labels).length === 0 ? SILENT : { labels, onChange };
}

/** Whether nothing changed that a judgement rests on. */
export function sameFacts(before: NamespaceFacts = SILENT, after: NamespaceFacts = SILENT): boolean {
  return before.onChange === after.onChange && before.labels[INJECT_KEY] === after.labels[INJECT_KEY];
}

/** Whether a pod is one that opted in and follows by its hosts file. The workload is asked for only if it comes to that. */
export function liveModeOf(
  pod: NodePod,
  config: Pick<Config, "namespace" | "pods">,
  namespaces: Pick<Informer<NamespaceFacts>, "objects"> & { readonly state: { readonly synced: boolean } },
  ownerWord: () => OwnerAnnotation,
): LiveMode {
  if (!namespaces.state.synced) return "unknown";
  const { labels, onChange } = namespaces.objects().get(pod.namespace) ?? SILENT;
  const { namespace, annotations } = pod;
  const excluded = new Set([...config.pods.excludedNamespaces, config.namespace]);
  const verdict = decideOptIn({
    namespace,
    labels: pod.labels,
    annotations,
    namespaceLabels: labels,
    excludedNamespaces: excluded,
  });
  if (!verdict.optedIn) return "no";
  const words = {
    pod: annotations[ON_CHANGE_KEY],
    workload: undefined,
    namespace: onChange,
    fallback: config.pods.onChange,
  };
  const own = effectiveOnChange(words);
  if (own.from === "pod") return own.mode === "live" ? "live" : "no";
  const owner = ownerWord();
  if (!owner.known) return "unknown";
  return effectiveOnChange({ ...words, workload: owner.word }).mode === "live" ? "live" : "no";
}
