import {
  type ClusterView,
  groupOf,
  ownerOfOptedIn,
  type WorkloadGroup,
} from "#controller/rollout/observe-workloads.ts";
import type { Owner } from "#lib/workloads/owners.ts";
import type { PodFacts } from "#lib/workloads/pods.ts";
import { partsOf } from "#lib/workloads/workload-keys.ts";

/** The observed cluster with its pods. */
export interface FullView extends ClusterView {
  readonly pods: Iterable<PodFacts>;
  /** Workloads with a restart that has no outcome yet. */
  readonly unfinished: Iterable<string>;
}

/**
 * Groups all pods by owner from scratch, and evaluates each group. The index, which follows changes, must have the
 * same result.
 */
export function observeFully(view: FullView): WorkloadGroup[] {
  const groups = new Map<string, { owner: Owner; pods: PodFacts[] }>();
  const guarded = <T>(what: () => string, evaluate: () => T): T | undefined => {
    try {
      return evaluate();
    } catch (error) {
      view.onError(what(), error);
      return undefined;
    }
  };
  for (const pod of view.pods) {
    const owner = guarded(
      () => `the pod ${pod.namespace}/${pod.name}`,
      () => ownerOfOptedIn(pod, view),
    );
    if (owner === undefined) continue;
    const group = groups.get(owner.key);
    if (group === undefined) groups.set(owner.key, { owner, pods: [pod] });
    else group.pods.push(pod);
  }
  for (const key of view.unfinished) {
    if (!groups.has(key)) groups.set(key, { owner: { ...partsOf(key), key, unrestartable: undefined }, pods: [] });
  }
  return [...groups.values()].flatMap(
    ({ owner, pods }) =>
      guarded(
        () => owner.key,
        () => groupOf(owner, pods, view),
      ) ?? [],
  );
}
