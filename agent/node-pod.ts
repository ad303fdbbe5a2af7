import { splitAliases } from "../hostmap/managed-aliases.ts";
import { HOSTS_KEY, INJECT_KEY, ON_CHANGE_KEY, OWNED_KEY } from "../hostmap/metadata-keys.ts";
import { MIRROR_KEY } from "../hostmap/opt-in.ts";
import type { HostAlias } from "../hostmap/types.ts";
import { controllerOf } from "../workloads/owners.ts";
import { hasEnded, hostAliasesOf, type PodFacts, type RawPod } from "../workloads/pods.ts";

type AgentFacts = "namespace" | "name" | "uid" | "owner" | "inject" | "mirror" | "hosts" | "onChange";

/** What the agent keeps of a pod of its node. */
export interface NodePod extends Pick<PodFacts, AgentFacts> {
  /** The aliases of its spec that the webhook added. */
  readonly managedAliases: readonly HostAlias[];
  /** Every container has ended for good. */
  readonly ended: boolean;
}

const NOTHING: readonly HostAlias[] = [];

/**
 * Keeps what is needed. The pods of a node mostly carry the same aliases, 500 names each: of equal lists only one is kept.
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
  return (raw) => {
    const { metadata = {} } = raw;
    const { labels = {}, annotations = {} } = metadata;
    return {
      namespace: metadata.namespace ?? "",
      name: metadata.name ?? "",
      uid: metadata.uid ?? "",
      owner: controllerOf(metadata),
      inject: labels[INJECT_KEY],
      mirror: Object.hasOwn(annotations, MIRROR_KEY),
      hosts: annotations[HOSTS_KEY],
      onChange: annotations[ON_CHANGE_KEY],
      managedAliases: shared(splitAliases(hostAliasesOf(raw), annotations[OWNED_KEY]).managedAliases),
      ended: hasEnded(raw),
    };
  };
}
