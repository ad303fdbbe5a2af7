import { isDeepStrictEqual } from "node:util";
import { HOSTS_KEY, INJECT_KEY, ON_CHANGE_KEY, RESTARTED_KEY, REVISION_KEY } from "#hostmap/metadata-keys.ts";
import { MIRROR_KEY } from "#hostmap/opt-in.ts";
import type { HostAlias, Reason } from "#hostmap/types.ts";
import type { ObjectChange } from "#lib/kube/cache.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import type { ApiObject, ObjectMeta } from "#lib/kube/types.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { truncate } from "./truncate.ts";

/** The parts of a pod from the API server that any process reads. */
export interface RawPod extends ApiObject {
  readonly spec?: {
    readonly nodeName?: string | undefined;
    readonly hostNetwork?: boolean;
    readonly hostAliases?: ReadonlyArray<{ readonly ip: string; readonly hostnames?: string[] | null }> | null;
    readonly dnsPolicy?: string;
    readonly dnsConfig?: { readonly nameservers?: readonly string[] | null } | null;
  };
  readonly status?: { readonly phase?: string };
}

/** An object's controller, as its ownerReferences name it. */
export interface OwnerRef {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
}

/**
 * The facts that a process keeps of a pod. The controller watches many pods, so these are only what shows whether a pod
 * opted in and is current.
 */
export interface PodFacts {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Undefined if the pod is not bound, or if its node is not read. */
  readonly node: string | undefined;
  readonly owner: OwnerRef | undefined;
  readonly templateHash: string | undefined;
  /** Value of the label that opts in or out. */
  readonly inject: string | undefined;
  /** Whether it is the kubelet's mirror of a static pod. */
  readonly mirror: boolean;
  readonly hosts: string | undefined;
  readonly revision: string | undefined;
  readonly onChange: string | undefined;
  readonly restartedAt: string | undefined;
  /** creationTimestamp, milliseconds since 1970 by the API server's clock. NaN: not known. */
  readonly created: number;
  /** Why `hosts` is only a hash: the text is too long to be kept. */
  readonly unfollowed?: Reason | undefined;
  /** It is being deleted. Only its replacement counts. */
  readonly terminating: boolean;
}

const ENDED: readonly (string | undefined)[] = ["Succeeded", "Failed"];

/** Field selector for pods that have not ended. An ended pod resolves no names. */
export const NOT_ENDED = ENDED.map((phase) => `status.phase!=${phase}`).join();

/** Whether every container of a pod has ended for good. */
export function hasEnded({ status }: RawPod): boolean {
  return ENDED.includes(status?.phase);
}

/** All hostAliases of a pod's spec, the user's and Switchback's. */
export function hostAliasesOf({ spec }: RawPod): HostAlias[] {
  return (spec?.hostAliases ?? []).map(({ ip, hostnames }) => ({ ip, hostnames: hostnames ?? [] }));
}

export interface PodsDeps {
  readonly client: Pick<KubeClient, "get" | "stream">;
  readonly log: Logger;
  /** Default: all namespaces. */
  readonly namespace?: string;
  readonly labelSelector: string;
  /** Whether the facts include the pods' nodes. */
  readonly withNodes: boolean;
  /** Returns what to keep of a pod's facts. */
  readonly keep: (facts: PodFacts) => PodFacts;
  /** Called for each change of a pod's facts, also during the first list; `before` and `after` differ. */
  readonly onChange: (change: ObjectChange<PodFacts>) => void;
  /** Called once, after the first complete list. */
  readonly onSynced: () => void;
}

/**
 * Watches the pods of a selection that have not ended. Without nodes, metadata is enough, with a tenth of the bytes of
 * a pod. The phase is not metadata, so the API server selects by it.
 */
export function watchPods(deps: PodsDeps): Informer<PodFacts> {
  const { client, log, namespace, labelSelector, withNodes, keep, onChange, onSynced } = deps;
  return watchObjects<PodFacts, RawPod>({
    client,
    path: corePath("pods", namespace),
    labelSelector,
    fieldSelector: NOT_ENDED,
    metadataOnly: !withNodes,
    project: (pod) => keep(podFacts(pod)),
    // A pod's status changes often, and no fact depends on it.
    onChange: (change) => {
      if (!isDeepStrictEqual(change.before, change.after)) onChange(change);
    },
    onSynced,
    log,
  });
}

/**
 * One character more than is used of the annotation `switchback.dev/hosts`, so that a longer text is reported as
 * truncated.
 */
const MAX_HOSTS_TEXT = 16 * 1024 + 1;
/** Longer than any valid value of the other annotations. */
const MAX_WORD = 128;

/** Maximum length of an RFC 1123 subdomain. */
const MAX_NODE_NAME = 253;

/** Returns the facts of a pod. Annotations are truncated, because a pod may have 256 KiB of them. */
export function podFacts({ metadata = {}, spec }: RawPod): PodFacts {
  const { labels = {}, annotations = {} } = metadata;
  return {
    namespace: metadata.namespace ?? "",
    name: metadata.name ?? "",
    uid: metadata.uid ?? "",
    node: truncate(spec?.nodeName, MAX_NODE_NAME) || undefined,
    owner: controllerOf(metadata),
    templateHash: labels["pod-template-hash"],
    inject: labels[INJECT_KEY],
    mirror: Object.hasOwn(annotations, MIRROR_KEY),
    hosts: truncate(annotations[HOSTS_KEY], MAX_HOSTS_TEXT),
    revision: truncate(annotations[REVISION_KEY], MAX_WORD),
    onChange: truncate(annotations[ON_CHANGE_KEY], MAX_WORD),
    restartedAt: truncate(annotations[RESTARTED_KEY], MAX_WORD),
    created: Date.parse(metadata.creationTimestamp ?? ""),
    terminating: metadata.deletionTimestamp !== undefined,
  };
}

/** Longer than any valid kind, name or apiVersion. */
const MAX_OWNER_TEXT = 512;

/**
 * Returns the owner that manages an object, if any. The result is a copy, so that the rest of the object can be
 * collected. Long texts are truncated.
 */
export function controllerOf(metadata: ObjectMeta = {}): OwnerRef | undefined {
  const owner = metadata.ownerReferences?.find(({ controller }) => controller === true);
  if (owner === undefined) return undefined;
  const { apiVersion, kind, name } = owner;
  return {
    apiVersion: truncate(apiVersion, MAX_OWNER_TEXT),
    kind: truncate(kind, MAX_OWNER_TEXT),
    name: truncate(name, MAX_OWNER_TEXT),
  };
}
