import { ON_CHANGE_KEY } from "#hostmap/metadata-keys.ts";
import { effectiveOnChange } from "#hostmap/on-change.ts";
import { DEFAULT_ON_CHANGE } from "#lib/config/defaults.ts";
import { workloadKey } from "#lib/workloads/workload-keys.ts";
import type { ClusterFacts, PodInfo } from "./facts.ts";

/**
 * Whether a pod follows the map without a restart. The mode in a workload's annotation comes from the leader's
 * status. The leader reads the workloads in the namespaces where it may restart them.
 */
export function isLive({
  namespaces,
  install,
}: Pick<ClusterFacts, "namespaces" | "install">): (pod: PodInfo) => boolean {
  const config = install.config.known ? install.config.value : undefined;
  const fallback = config?.pods.onChange ?? DEFAULT_ON_CHANGE;
  const workloadModes = new Map(
    ((install.status.known ? install.status.value.running?.workloads : undefined) ?? [])
      .filter(({ modeFrom }) => modeFrom === "workload")
      .map((workload) => [workloadKey(workload), workload.mode]),
  );
  return ({ namespace, annotations, owner }) => {
    const namespaceMode = namespaces.known ? namespaces.value.get(namespace)?.onChange : undefined;
    const [pod, workload] = [annotations[ON_CHANGE_KEY], workloadModes.get(owner)];
    return effectiveOnChange({ pod, workload, namespace: namespaceMode, fallback }).mode === "live";
  };
}

/** Whether the updater of the pod's node has given the pod the names that it selects now; undefined if unknown. */
export function isUpdated(
  { updaters }: ClusterFacts,
  { node }: PodInfo,
  wanted: { readonly podRevision: string; readonly mapRevision: string },
): boolean | undefined {
  if (updaters === undefined || !updaters.known) return undefined;
  const updater = updaters.value.of(node);
  if (updater?.alive !== true) return false;
  return updater.mapRevision === wanted.mapRevision || updater.podRevisions?.includes(wanted.podRevision) === true;
}
