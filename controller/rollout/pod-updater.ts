import type { KubeClient } from "#lib/kube/client.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { PodFacts } from "#lib/workloads/pods.ts";

/** Updates running pods without a restart, for pods in mode `live`. */
export interface PodUpdater {
  /**
   * Starts to observe the updater. Called at the first pod in mode `live`; it lasts until the leader's term ends.
   */
  observe(deps: UpdaterDeps): ObservedUpdater;
}

interface UpdaterDeps {
  readonly client: KubeClient;
  readonly log: Logger;
  /** A monotonic clock, milliseconds. */
  readonly now: () => number;
  /** The updater must call this when the state of a pod may have changed. */
  readonly onChange: () => void;
}

export interface ObservedUpdater {
  /** The updater of a pod. It is equal for all pods of a node. */
  of(pod: PodFacts): UpdaterOfPod;
  /** How many processes read the map for running pods. */
  readonly mapReaders: number;
  /** When the next updater becomes silent if it does not report again; undefined: never. */
  nextSilence(): number | undefined;
  /** The longest time, in milliseconds, since a watch last received or tried anything. */
  readonly inactiveMs: number;
  stop(): Promise<void>;
}

/**
 * The known state of the process that updates a pod. `unknown`: not known yet. Undefined: the pod has no such
 * process.
 */
export type UpdaterOfPod = UpdaterState | "unknown" | undefined;

/** The report of the process that updates the pods of a node. */
export interface UpdaterState {
  /** Whether the process works. If it does, a restart waits for it. */
  readonly alive: boolean;
  /** The revision of the map that every pod of the node has. */
  readonly mapRevision: string | undefined;
  /**
   * The pod revisions (`SelectedHosts.revision`) that the updater has applied to all pods of the node that select
   * them.
   */
  readonly podRevisions: readonly string[] | undefined;
}

/**
 * Whether a pod has what it selects now. The list of pod revisions also answers this after a map that changed nothing
 * for the node. The map's revision answers it without a list, and for pods that do not count as following.
 */
export function isApplied(
  { mapRevision, podRevisions }: Pick<UpdaterState, "mapRevision" | "podRevisions">,
  wanted: { readonly podRevision: string; readonly mapRevision: string },
): boolean {
  return mapRevision === wanted.mapRevision || podRevisions?.includes(wanted.podRevision) === true;
}
