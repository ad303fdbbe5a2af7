import { HOSTS_KEY, INJECT_KEY, ON_CHANGE_KEY, RESTARTED_KEY, REVISION_KEY } from "../hostmap/metadata-keys.ts";
import { MIRROR_KEY } from "../hostmap/opt-in.ts";
import type { KubeClient } from "../kube/client.ts";
import { corePath } from "../kube/paths.ts";
import type { ApiObject } from "../kube/types.ts";
import { type Informer, watchObjects } from "../kube/watch.ts";
import type { Logger } from "../telemetry/log.ts";

/** The parts of a pod from the API server that tell what it was made with. */
export interface RawPod {
  readonly metadata?: { readonly annotations?: Readonly<Record<string, string>> };
  readonly spec?: {
    readonly nodeName?: string;
    readonly hostAliases?: ReadonlyArray<{ readonly ip: string; readonly hostnames?: readonly string[] | null }> | null;
  };
}

/** What is kept of a pod: as little as tells whether it is ours and in step, since every pod of the cluster is watched. */
export interface PodFacts {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly owner: { readonly apiVersion: string; readonly kind: string; readonly name: string } | undefined;
  readonly templateHash: string | undefined;
  /** The label that opts in or out. */
  readonly inject: string | undefined;
  readonly mirror: boolean;
  readonly hosts: string | undefined;
  readonly revision: string | undefined;
  readonly onChange: string | undefined;
  readonly restartedAt: string | undefined;
  /** It is being deleted: what comes after it counts. */
  readonly leaving: boolean;
}

export interface NamespaceFacts {
  readonly inject: string | undefined;
  readonly onChange: string | undefined;
}

/** Pods that have ended hold nothing. Selected by the API server: the phase is not metadata. */
const RUNNING = "status.phase!=Succeeded,status.phase!=Failed";

interface Deps {
  readonly client: Pick<KubeClient, "get" | "stream">;
  readonly log: Logger;
  readonly onChange: () => void;
}

/** All pods that run, as metadata. */
export function watchPods({ client, log, onChange }: Deps): Informer<PodFacts> {
  return watchObjects<PodFacts>({
    client,
    path: corePath("pods"),
    fieldSelector: RUNNING,
    metadataOnly: true,
    project: podFacts,
    // A pod's status changes often, and tells nothing here.
    onChange: ({ before, after }) => {
      if (JSON.stringify(before) !== JSON.stringify(after)) onChange();
    },
    onSynced: onChange,
    log,
  });
}

export function watchNamespaces({ client, log, onChange }: Deps): Informer<NamespaceFacts> {
  return watchObjects<NamespaceFacts>({
    client,
    path: corePath("namespaces"),
    metadataOnly: true,
    project: ({ metadata }) => ({
      inject: metadata?.labels?.[INJECT_KEY],
      onChange: metadata?.annotations?.[ON_CHANGE_KEY],
    }),
    onChange,
    onSynced: onChange,
    log,
  });
}

export function podFacts({ metadata = {} }: ApiObject): PodFacts {
  const { labels = {}, annotations = {} } = metadata;
  const owner = metadata.ownerReferences?.find(({ controller }) => controller === true);
  return {
    namespace: metadata.namespace ?? "",
    name: metadata.name ?? "",
    uid: metadata.uid ?? "",
    owner: owner && { apiVersion: owner.apiVersion, kind: owner.kind, name: owner.name },
    templateHash: labels["pod-template-hash"],
    inject: labels[INJECT_KEY],
    mirror: Object.hasOwn(annotations, MIRROR_KEY),
    hosts: annotations[HOSTS_KEY],
    revision: annotations[REVISION_KEY],
    onChange: annotations[ON_CHANGE_KEY],
    restartedAt: annotations[RESTARTED_KEY],
    leaving: metadata.deletionTimestamp !== undefined,
  };
}
