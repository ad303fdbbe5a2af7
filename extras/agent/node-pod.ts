import { hash } from "node:crypto";
import { splitAliases } from "#hostmap/managed-aliases.ts";
import { OWNED_KEY } from "#hostmap/metadata-keys.ts";
import type { HostAlias, Reason } from "#hostmap/types.ts";
import { hasEnded, hostAliasesOf, type PodFacts, podFacts, type RawPod } from "#lib/workloads/pods.ts";
import { hostsFileLimits } from "./hosts-file-limits.ts";

/** Facts that the agent keeps about a pod of its node. */
export interface NodePod extends PodFacts {
  /** Aliases in the pod's spec that the webhook added. */
  readonly managedAliases: readonly HostAlias[];
  /** The pod uses the host's network, so the kubelet copied the node's hosts file for it. */
  readonly hostNetwork?: boolean;
  /** Whether every container has ended for good. */
  readonly ended: boolean;
  /** Why the pod's hosts file is not written, whatever the file contains. */
  readonly refusal?: Reason;
}

const NOTHING: readonly HostAlias[] = [];

/**
 * Maximum memory of one pod's managed aliases, in bytes as `memoryOf` counts them. Users who may create pods can
 * forge these aliases, and the aliases of 110 different pods must fit into the agent's heap. 500 names of 25 bytes
 * take 33 KB at one address.
 */
const ALIAS_BYTES = 32 * 1024;
const ALIAS_BYTES_PER_NAME = 256;

/**
 * Creates a function that keeps only the facts that the agent needs. Most pods of a node have the same aliases, 500
 * names each, so equal lists are kept once. `maxNames`: maximum number of names that the webhook adds to a pod.
 */
export function createProjection(maxNames = 500): (raw: RawPod) => NodePod {
  const maxLines = hostsFileLimits(maxNames).lines;
  const maxBytes = ALIAS_BYTES + maxNames * ALIAS_BYTES_PER_NAME;
  const lists = new Map<string, WeakRef<readonly HostAlias[]>>();
  const shared = (list: readonly HostAlias[]): readonly HostAlias[] => {
    if (list.length === 0) return NOTHING;
    const key = hash("sha256", JSON.stringify(list));
    const known = lists.get(key)?.deref();
    if (known !== undefined) return known;
    for (const [other, held] of lists) if (held.deref() === undefined) lists.delete(other);
    lists.set(key, new WeakRef(list));
    return list;
  };
  /** The managed aliases. Undefined if there are more than the webhook ever adds, or than a hosts file may have. */
  const managedAliasesOf = (raw: RawPod): readonly HostAlias[] | undefined => {
    if ((raw.spec?.hostAliases?.length ?? 0) > maxLines) return undefined;
    const { managedAliases } = splitAliases(hostAliasesOf(raw), raw.metadata?.annotations?.[OWNED_KEY]);
    return memoryOf(managedAliases) > maxBytes ? undefined : shared(managedAliases);
  };
  return (raw) => {
    const managedAliases = managedAliasesOf(raw);
    return {
      ...podFacts(raw),
      managedAliases: managedAliases ?? NOTHING,
      ...(raw.spec?.hostNetwork === true && { hostNetwork: true }),
      ended: hasEnded(raw),
      ...(managedAliases === undefined && { refusal: TOO_MANY_ALIASES }),
    };
  };
}

const TOO_MANY_ALIASES: Reason = {
  code: "aliases-too-large",
  text: "the pod's hostAliases are more than the webhook adds or a hosts file may have",
};

/** Approximate memory of a list, in bytes. */
function memoryOf(list: readonly HostAlias[]): number {
  let bytes = 0;
  for (const { hostnames } of list) {
    bytes += 160;
    for (const name of hostnames) bytes += 32 + name.length;
  }
  return bytes;
}
