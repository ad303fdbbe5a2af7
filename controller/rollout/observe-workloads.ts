import { type EffectiveOnChange, effectiveOnChange, type OnChange } from "../../hostmap/on-change.ts";
import type { SelectedHosts } from "../../hostmap/select-hosts.ts";
import type { Reason } from "../../hostmap/types.ts";
import type { AgentState } from "../../snapshot/agent-lease-reader.ts";
import type { NamespaceFacts } from "../../workloads/namespaces.ts";
import { type Owner, type OwnerOfReplicaSet, ownerOf } from "../../workloads/owners.ts";
import { isOptedIn } from "../../workloads/pod-opt-in.ts";
import type { PodFacts } from "../../workloads/pods.ts";
import { partsOf } from "../../workloads/workload-keys.ts";
import type { WorkloadState } from "../../workloads/workload-state.ts";
import type { ObservedWorkload } from "./reconciler.ts";

/** A selection without its names. One is kept for each annotation value. */
export type HostsChoice = Pick<SelectedHosts, "revision" | "total" | "cap">;

/** The observed state of the cluster. */
export interface ClusterView {
  readonly pods: Iterable<PodFacts>;
  readonly namespaces: ReadonlyMap<string, NamespaceFacts>;
  readonly excludedNamespaces: ReadonlySet<string>;
  /** Selects names of the published map by the value of a `switchback.dev/hosts` annotation. */
  readonly choose: (hosts: string | undefined) => HostsChoice;
  /** Revision of the published map. */
  readonly mapRevision: string;
  readonly fallback: OnChange;
  readonly isListed: (namespace: string) => boolean;
  readonly parentOf: OwnerOfReplicaSet;
  readonly stateOf: (key: string) => WorkloadState | "unknown" | "absent";
  /** The agent on a pod's node. `unknown`: the node is not known yet. */
  readonly agentOf: (pod: PodFacts) => AgentState | "unknown" | undefined;
  /** Workloads with a restart that has no outcome yet. */
  readonly unfinished: Iterable<string>;
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

interface EvaluatedPod {
  readonly pod: PodFacts;
  readonly selected: HostsChoice;
  readonly onChange: EffectiveOnChange;
  readonly agent: "keeping" | "silent" | undefined;
  readonly stale: boolean;
}

/** Groups opted-in pods by owner, and finds those that do not have what new pods would get. */
export function observeWorkloads(view: ClusterView): WorkloadGroup[] {
  const groups = new Map<string, { owner: Owner; pods: PodFacts[] }>();
  for (const pod of view.pods) {
    if (pod.terminating || !isOptedIn(pod, view.namespaces.get(pod.namespace), view.excludedNamespaces)) continue;
    const owner = ownerOf(pod, view.parentOf);
    const group = groups.get(owner.key);
    if (group === undefined) groups.set(owner.key, { owner, pods: [pod] });
    else group.pods.push(pod);
  }
  for (const key of view.unfinished) {
    if (!groups.has(key)) groups.set(key, { owner: { ...partsOf(key), key, unrestartable: undefined }, pods: [] });
  }
  return [...groups.values()].map(({ owner, pods }) => groupOf(owner, pods, view));
}

function groupOf(owner: Owner, pods: readonly PodFacts[], view: ClusterView): WorkloadGroup {
  const { namespace } = owner;
  const state = view.stateOf(owner.key);
  const workload = typeof state === "string" ? undefined : state.onChange;
  const evaluated = pods.map((pod) => evaluatePod(pod, workload, view));
  const stale = evaluated.filter((each) => each.stale);
  const [first] = [...stale, ...evaluated];
  const onChange = first?.onChange ?? { mode: view.fallback, from: "install", problems: [] };
  const capped = evaluated.map(({ selected }) => selected).find(({ total, cap }) => total > cap);
  return {
    owner,
    onChange,
    pods: pods.length,
    stale: stale.map(({ pod }) => pod),
    first: pods[0],
    notInjected: pods.filter(({ revision }) => revision === undefined).length,
    overCap: capped && { total: capped.total, cap: capped.cap },
    warnings: onChange.problems,
    observed: {
      key: owner.key,
      namespace,
      kind: owner.kind,
      unrestartable: owner.unrestartable,
      permitted: view.isListed(namespace),
      state,
      mode: onChange.mode,
      agents: agentsOf(stale),
      stale: stale.map(({ pod: { revision, restartedAt } }) => ({ revision, restartedAt })),
      to: [...new Set(evaluated.map(({ selected }) => selected.revision))].sort().join("+"),
    },
  };
}

function evaluatePod(pod: PodFacts, workload: string | undefined, view: ClusterView): EvaluatedPod {
  const selected = view.choose(pod.hosts);
  const namespace = view.namespaces.get(pod.namespace)?.onChange;
  const onChange = effectiveOnChange({ pod: pod.onChange, workload, namespace, fallback: view.fallback });
  const byAnnotation = pod.revision !== selected.revision;
  if (onChange.mode !== "live") return { pod, selected, onChange, agent: undefined, stale: byAnnotation };
  const agent = view.agentOf(pod);
  if (agent === "unknown") return { pod, selected, onChange, agent: "keeping", stale: byAnnotation };
  if (!agent?.alive) return { pod, selected, onChange, agent: "silent", stale: byAnnotation };
  // The annotation dates from the pod's creation; the agent has updated the hosts file since.
  return { pod, selected, onChange, agent: "keeping", stale: agent.mapRevision !== view.mapRevision };
}

/** `keeping` if the agent of any stale pod is working: the restart waits for it. */
function agentsOf(stale: readonly EvaluatedPod[]): ObservedWorkload["agents"] {
  if (stale.some(({ agent }) => agent === "keeping")) return "keeping";
  return stale.some(({ agent }) => agent === "silent") ? "silent" : undefined;
}
