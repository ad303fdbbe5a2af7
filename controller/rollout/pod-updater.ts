import type { KubeClient } from "#lib/kube/client.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { PodFacts } from "#lib/workloads/pods.ts";

/** What brings running pods up to date without a restart, for pods in mode `live`. */
export interface PodUpdater {
  /** Observes it, from the first pod in mode `live` to the end of a leader's term. */
  observe(deps: UpdaterDeps): ObservedUpdater;
}

interface UpdaterDeps {
  readonly client: KubeClient;
  readonly log: Logger;
  /** A monotonic clock, milliseconds. */
  readonly now: () => number;
  /** Is to be called when a pod may have another state. */
  readonly onChange: () => void;
}

export interface ObservedUpdater {
  /** Equal for all pods of a node. */
  of(pod: PodFacts): UpdaterOfPod;
  /** How many processes read the map for running pods. */
  readonly mapReaders: number;
  /** When the next one becomes silent if it does not report again; undefined: never. */
  nextSilence(): number | undefined;
  /** The longest time, in milliseconds, since a watch last received or tried anything. */
  readonly inactiveMs: number;
  stop(): Promise<void>;
}

/** What is known of the process that updates a pod. `unknown`: nothing yet. Undefined: the pod has none. */
export type UpdaterOfPod = UpdaterState | "unknown" | undefined;

/** What the process that updates the pods of a node has reported. */
export interface UpdaterState {
  /** Whether it works: a restart waits for it. */
  readonly alive: boolean;
  /** The revision of the map that every pod of the node has. */
  readonly mapRevision: string | undefined;
  /** The revisions (`SelectedHosts.revision`) that every pod of the node with this selection has. */
  readonly podRevisions: readonly string[] | undefined;
}

/**
 * Whether a pod has what it selects now. The list answers that also for a map that changed nothing for the node; the
 * map's revision answers it where none is listed, and for pods that do not count as following.
 */
export function isApplied(
  { mapRevision, podRevisions }: Pick<UpdaterState, "mapRevision" | "podRevisions">,
  wanted: { readonly podRevision: string; readonly mapRevision: string },
): boolean {
  return mapRevision === wanted.mapRevision || podRevisions?.includes(wanted.podRevision) === true;
}
