import { HOSTS_KEY, INJECT_KEY, ON_CHANGE_KEY, RESTARTED_KEY, REVISION_KEY } from "../hostmap/metadata-keys.ts";
import { MIRROR_KEY } from "../hostmap/opt-in.ts";
import type { HostAlias } from "../hostmap/types.ts";
import type { KubeClient } from "../kube/client.ts";
import { corePath } from "../kube/paths.ts";
import type { ApiObject } from "../kube/types.ts";
import { type Informer, watchObjects } from "../kube/watch.ts";
import type { Logger } from "../telemetry/log.ts";
import { controllerOf, type OwnerRef } from "./owners.ts";

/** A pod from the API server: the parts that any process reads. */
export interface RawPod extends ApiObject {
  readonly spec?: {
    readonly nodeName?: string;
    readonly hostAliases?: ReadonlyArray<{ readonly ip: string; readonly hostnames?: string[] | null }> | null;
  };
  readonly status?: { readonly phase?: string };
}

/** What the controller keeps of a pod: only what shows whether it opted in and is current, since it watches every pod. */
export interface PodFacts {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly owner: OwnerRef | undefined;
  readonly templateHash: string | undefined;
  /** Value of the label that opts in or out. */
  readonly inject: string | undefined;
  /** The kubelet's copy of a static pod. */
  readonly mirror: boolean;
  readonly hosts: string | undefined;
  readonly revision: string | undefined;
  readonly onChange: string | undefined;
  readonly restartedAt: string | undefined;
  /** It is being deleted; only its replacement counts. */
  readonly terminating: boolean;
}

const ENDED: readonly (string | undefined)[] = ["Succeeded", "Failed"];

/** Field selector of pods that have not ended. A pod that has ended resolves no names. */
export const NOT_ENDED = ENDED.map((phase) => `status.phase!=${phase}`).join();

/** Whether every container of a pod has ended for good. */
export function hasEnded({ status }: RawPod): boolean {
  return ENDED.includes(status?.phase);
}

/** All hostAliases of a pod's spec, the user's and Switchback's. */
export function hostAliasesOf({ spec }: RawPod): HostAlias[] {
  return (spec?.hostAliases ?? []).map(({ ip, hostnames }) => ({ ip, hostnames: hostnames ?? [] }));
}

/** All pods that have not ended, as metadata: the phase is not metadata, so the API server selects by it. */
export function watchPods(deps: {
  readonly client: Pick<KubeClient, "get" | "stream">;
  readonly log: Logger;
  readonly onChange: () => void;
}): Informer<PodFacts> {
  const { client, log, onChange } = deps;
  return watchObjects<PodFacts>({
    client,
    path: corePath("pods"),
    fieldSelector: NOT_ENDED,
    metadataOnly: true,
    project: podFacts,
    // A pod's status changes often, and no fact depends on it.
    onChange: ({ before, after }) => {
      if (JSON.stringify(before) !== JSON.stringify(after)) onChange();
    },
    onSynced: onChange,
    log,
  });
}

export function podFacts({ metadata = {} }: ApiObject): PodFacts {
  const { labels = {}, annotations = {} } = metadata;
  return {
    namespace: metadata.namespace ?? "",
    name: metadata.name ?? "",
    uid: metadata.uid ?? "",
    owner: controllerOf(metadata),
    templateHash: labels["pod-template-hash"],
    inject: labels[INJECT_KEY],
    mirror: Object.hasOwn(annotations, MIRROR_KEY),
    hosts: annotations[HOSTS_KEY],
    revision: annotations[REVISION_KEY],
    onChange: annotations[ON_CHANGE_KEY],
    restartedAt: annotations[RESTARTED_KEY],
    terminating: metadata.deletionTimestamp !== undefined,
  };
}
