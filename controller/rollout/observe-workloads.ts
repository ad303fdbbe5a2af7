import { type EffectiveOnChange, effectiveOnChange, type OnChange } from "#hostmap/on-change.ts";
import type { OptInRules } from "#hostmap/opt-in.ts";
import { isByDns } from "#hostmap/pod-dns-marks.ts";
import type { SelectedHosts } from "#hostmap/pod-selection.ts";
import type { Reason } from "#hostmap/types.ts";
import type { NamespaceFacts } from "#lib/workloads/namespaces.ts";
import { type Owner, type OwnerOfReplicaSet, ownerOf } from "#lib/workloads/owners.ts";
import { isOptedIn } from "#lib/workloads/pod-opt-in.ts";
import type { PodFacts } from "#lib/workloads/pods.ts";
import type { WorkloadState } from "#lib/workloads/workload-state.ts";
import { isApplied, type UpdaterOfPod } from "./pod-updater.ts";
import type { ObservedWorkload } from "./reconciler.ts";
import type { StalePod } from "./workload-facts.ts";

/** A selection without its names. One is stored per annotation value. */
export type HostsChoice = Pick<SelectedHosts, "revision" | "total" | "cap">;

/** The observed state of the cluster, without the pods. */
export interface ClusterView {
  readonly namespaces: ReadonlyMap<string, NamespaceFacts>;
  readonly optIn: OptInRules;
  /** Selects names of the published map by the value of a `switchback.dev/hosts` annotation. */
  readonly choose: (hosts: string | undefined) => HostsChoice;
  /** Revision of the published map. */
  readonly mapRevision: string;
  readonly fallback: OnChange;
  readonly isListed: (namespace: string) => boolean;
  readonly parentOf: OwnerOfReplicaSet;
  readonly stateOf: (key: string) => WorkloadState | "unknown" | "forbidden" | "absent";
  /** The updater of a pod in mode `live`. */
  readonly updaterOf: (pod: PodFacts) => UpdaterOfPod;
  /** Called if a pod or workload cannot be evaluated. It is then left out. */
  readonly onError: (what: string, error: unknown) => void;
}

/** The opted-in pods of one owner. */
export interface WorkloadGroup {
  readonly observed: ObservedWorkload;
  readonly owner: Owner;
  readonly onChange: EffectiveOnChange;
  readonly pods: number;
  readonly stale: readonly PodFacts[];
  readonly first: PodFacts | undefined;
  /** Pods that the webhook did not inject. */
  readonly notInjected: number;
  /** Set if the pods' selection matches more names than a pod may have. */
  readonly overCap: { readonly total: number; readonly cap: number } | undefined;
  readonly warnings: readonly Reason[];
}

/** The facts of a pod that decide about it. Pods of one workload with the same facts are evaluated once. */
export interface PodClass {
  readonly hosts: string | undefined;
  readonly revision: string | undefined;
  readonly onChange: EffectiveOnChange;
  /** In mode `live`: the updater of the pod. */
  readonly updater: UpdaterOfPod;
}

interface EvaluatedClass {
  readonly selected: HostsChoice;
  readonly updater: "keeping" | "silent" | undefined;
  readonly stale: boolean;
}

/** The facts of a workload that do not depend on the identity of its pods. Workloads with equal classes share them. */
export interface GroupSummary
  extends Pick<WorkloadGroup, "onChange" | "pods" | "notInjected" | "overCap" | "warnings">,
    Pick<ObservedWorkload, "updaters" | "to"> {
  readonly stale: number;
}

/** The values of the annotation `switchback.dev/on-change` on a pod's workload and namespace. */
interface OnChangeLevels {
  readonly workload: string | undefined;
  readonly namespace: string | undefined;
}

/** The owner of an opted-in pod. Undefined: the pod is not opted in, or is terminating. */
export function ownerOfOptedIn(
  pod: PodFacts,
  view: Pick<ClusterView, "namespaces" | "optIn" | "parentOf">,
): Owner | undefined {
  if (pod.terminating || !isOptedIn(pod, view.namespaces.get(pod.namespace), view.optIn)) return undefined;
  return ownerOf(pod, view.parentOf);
}

/** The values of `switchback.dev/on-change` above the pods of one owner. */
export function onChangeLevels(owner: Owner, view: Pick<ClusterView, "namespaces" | "stateOf">): OnChangeLevels {
  const state = view.stateOf(owner.key);
  return {
    workload: typeof state === "string" ? undefined : state.onChange,
    namespace: view.namespaces.get(owner.namespace)?.onChange,
  };
}

/** The class of a pod. Its updater is asked for only in mode `live`. */
export function classOf(
  pod: PodFacts,
  levels: OnChangeLevels,
  view: Pick<ClusterView, "fallback" | "updaterOf">,
): PodClass {
  const onChange = effectiveOnChange({ pod: pod.onChange, ...levels, fallback: view.fallback });
  const updater = onChange.mode === "live" ? view.updaterOf(pod) : undefined;
  return { hosts: pod.hosts, revision: pod.revision, onChange, updater };
}

/**
 * Summarizes the pods of a workload. `classes` has their classes and counts, in the order of the first pod of each
 * class.
 */
export function summarize(
  classes: ReadonlyArray<{ readonly of: PodClass; readonly count: number }>,
  view: Pick<ClusterView, "choose" | "mapRevision" | "fallback">,
): GroupSummary {
  const evaluated = classes.map(({ of, count }) => ({ of, count, ...evaluate(of, view) }));
  const stale = evaluated.filter((each) => each.stale);
  const [first] = [...stale, ...evaluated];
  const onChange = first?.of.onChange ?? { mode: view.fallback, from: "install", problems: [] };
  // Pod DNS has no limit on names.
  const capped = evaluated.find(({ of, selected: { total, cap } }) => total > cap && !isByDns(of.revision))?.selected;
  const countOf = (some: typeof evaluated) => some.reduce((sum, { count }) => sum + count, 0);
  return {
    onChange,
    pods: countOf(evaluated),
    stale: countOf(stale),
    notInjected: countOf(evaluated.filter(({ of }) => of.revision === undefined)),
    overCap: capped && { total: capped.total, cap: capped.cap },
    warnings: onChange.problems,
    updaters: updatersOf(stale),
    to: [...new Set(evaluated.map(({ selected }) => selected.revision))].sort().join("+"),
  };
}

/** All facts about the workload of an owner. A pod is stale if it does not have what a new pod would get. */
export function groupOf(owner: Owner, pods: readonly PodFacts[], view: ClusterView): WorkloadGroup {
  const { key, namespace, kind, unrestartable } = owner;
  const levels = onChangeLevels(owner, view);
  const classes = pods.map((pod) => ({ of: classOf(pod, levels, view), count: 1 }));
  const summary = summarize(classes, view);
  const stale = pods.filter((_, index) => {
    const each = classes[index]?.of;
    return each !== undefined && evaluate(each, view).stale;
  });
  const { onChange, notInjected, overCap, warnings } = summary;
  return {
    owner,
    onChange,
    pods: pods.length,
    stale,
    first: pods[0],
    notInjected,
    overCap,
    warnings,
    observed: {
      key,
      namespace,
      kind,
      unrestartable,
      permitted: view.isListed(namespace),
      state: view.stateOf(key),
      mode: summary.onChange.mode,
      updaters: summary.updaters,
      stale: distinct(stale),
      to: summary.to,
    },
  };
}

/** Keeps one pod per revision and restart, because the others lead to the same decision. */
function distinct(pods: readonly PodFacts[]): StalePod[] {
  const all = new Map<string, StalePod>();
  for (const { revision, restartedAt } of pods) {
    all.set(JSON.stringify([revision, restartedAt]), { revision, restartedAt });
  }
  return [...all.values()];
}

function evaluate(
  { hosts, revision, onChange, updater }: PodClass,
  view: Pick<ClusterView, "choose" | "mapRevision">,
): EvaluatedClass {
  const selected = view.choose(hosts);
  // The pod's resolvers follow the map, so it has every name, whenever it was created.
  if (isByDns(revision)) return { selected, updater: undefined, stale: false };
  const byAnnotation = revision !== selected.revision;
  if (onChange.mode !== "live") return { selected, updater: undefined, stale: byAnnotation };
  if (updater === "unknown") return { selected, updater: "keeping", stale: byAnnotation };
  if (!updater?.alive) return { selected, updater: "silent", stale: byAnnotation };
  // The annotation is from the pod's creation, but the hosts file was updated since.
  const wanted = { podRevision: selected.revision, mapRevision: view.mapRevision };
  return { selected, updater: "keeping", stale: !isApplied(updater, wanted) };
}

/** `keeping` if the updater of any stale pod works, because then the restart waits for it. */
function updatersOf(stale: readonly Pick<EvaluatedClass, "updater">[]): ObservedWorkload["updaters"] {
  if (stale.some(({ updater }) => updater === "keeping")) return "keeping";
  return stale.some(({ updater }) => updater === "silent") ? "silent" : undefined;
}
