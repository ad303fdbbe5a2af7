import { splitAliases } from "../hostmap/managed-aliases.ts";
import { HOSTS_KEY, INJECT_KEY, ON_CHANGE_KEY, OWNED_KEY } from "../hostmap/metadata-keys.ts";
import { MIRROR_KEY } from "../hostmap/opt-in.ts";
import type { HostAlias } from "../hostmap/types.ts";
import type { ApiObject } from "../kube/types.ts";

/** A pod's controller, as its ownerReferences name it. */
export interface OwnerRef {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
}

/** What the agent keeps of a pod of its node. */
export interface NodePod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Those of ours only, here and in `annotations`. */
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly owner: OwnerRef | undefined;
  /** The aliases of its spec that the webhook put there. */
  readonly ours: readonly HostAlias[];
  /** Every container has ended for good. */
  readonly ended: boolean;
}

/** A pod as the API server tells it. */
export type RawPod = ApiObject & {
  metadata?: ApiObject["metadata"] & { ownerReferences?: Array<OwnerRef & { controller?: boolean }> };
  spec?: { hostAliases?: Array<{ ip: string; hostnames?: string[] }> };
  status?: { phase?: string };
};

const LABELS = [INJECT_KEY];
const ANNOTATIONS = [HOSTS_KEY, ON_CHANGE_KEY, MIRROR_KEY];
const ENDED: readonly (string | undefined)[] = ["Succeeded", "Failed"];
const NOTHING: readonly HostAlias[] = [];

/**
 * Picks what is needed. The pods of a node mostly carry the same aliases, 500 names each: lists that are equal are kept once.
 */
export function createProjection(): (raw: RawPod) => NodePod {
  const lists = new Map<string, WeakRef<readonly HostAlias[]>>();
  const shared = (list: readonly HostAlias[]): readonly HostAlias[] => {
    if (list.length === 0) return NOTHING;
    const key = JSON.stringify(list);
    const known = lists.get(key)?.deref();
    if (known !== undefined) return known;
    for (const [other, held] of lists) if (held.deref() === undefined) lists.delete(other);
    lists.set(key, new WeakRef(list));
    return list;
  };
  return ({ metadata = {}, spec, status }) => {
    const aliases = (spec?.hostAliases ?? []).map(({ ip, hostnames }) => ({ ip, hostnames: hostnames ?? [] }));
    const owner = metadata.ownerReferences?.find(({ controller }) => controller);
    return {
      namespace: metadata.namespace ?? "",
      name: metadata.name ?? "",
      uid: metadata.uid ?? "",
      labels: picked(metadata.labels, LABELS),
      annotations: picked(metadata.annotations, ANNOTATIONS),
      owner: owner && { apiVersion: owner.apiVersion, kind: owner.kind, name: owner.name },
      ours: shared(splitAliases(aliases, metadata.annotations?.[OWNED_KEY]).managedAliases),
      ended: ENDED.includes(status?.phase),
    };
  };
}

/** The entries of these keys. */
export function picked(from: Readonly<Record<string, string>> = {}, keys: readonly string[]): Record<string, string> {
  return Object.fromEntries(keys.flatMap((key) => (from[key] === undefined ? [] : [[key, from[key]]])));
}
