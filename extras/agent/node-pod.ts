import { hash } from "node:crypto";
import { splitAliases } from "#hostmap/managed-aliases.ts";
import { HOSTS_KEY, INJECT_KEY, ON_CHANGE_KEY, OWNED_KEY, REVISION_KEY } from "#hostmap/metadata-keys.ts";
import { MIRROR_KEY } from "#hostmap/opt-in.ts";
import { isByDns } from "#hostmap/pod-dns-marks.ts";
import type { HostAlias, Reason } from "#hostmap/types.ts";
import { controllerOf } from "#lib/workloads/owners.ts";
import { hasEnded, hostAliasesOf, MAX_HOSTS_TEXT, MAX_WORD, type PodFacts, type RawPod } from "#lib/workloads/pods.ts";
import { truncate } from "#lib/workloads/truncate.ts";
import { hostsFileLimits } from "./hosts-file-limits.ts";

type AgentFacts = "namespace" | "name" | "uid" | "owner" | "inject" | "mirror" | "hosts" | "onChange";

/** What the agent keeps of a pod of its node. */
export interface NodePod extends Pick<PodFacts, AgentFacts> {
  /** The aliases of its spec that the webhook added. */
  readonly managedAliases: readonly HostAlias[];
  /** It resolves through pod DNS: its hosts file is left alone. */
  readonly byDns?: boolean;
  /** It uses the host's network: the kubelet copied the node's hosts file for it. */
  readonly hostNetwork?: boolean;
  /** Every container has ended for good. */
  readonly ended: boolean;
  /** Why its hosts file is not written, whatever that contains. */
  readonly refusal?: Reason;
}

const NOTHING: readonly HostAlias[] = [];

/**
 * The most memory that the managed aliases of one pod take, in bytes as `memoryOf` counts them. Users who may
 * create pods can forge them, and 110 pods of a node with other aliases each must fit into the agent's heap. 500
 * names of 25 bytes take 33 KB at one address.
 */
const ALIAS_BYTES = 32 * 1024;
const ALIAS_BYTES_PER_NAME = 256;

/**
 * Keeps what is needed. The pods of a node mostly carry the same aliases, 500 names each: of equal lists only one
 * is kept. `maxNames`: the most names that the webhook adds to a pod.
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
  /** The managed aliases; undefined: more than the webhook ever adds, or than a hosts file may have. */
  const managedAliasesOf = (raw: RawPod): readonly HostAlias[] | undefined => {
    if ((raw.spec?.hostAliases?.length ?? 0) > maxLines) return undefined;
    const { managedAliases } = splitAliases(hostAliasesOf(raw), raw.metadata?.annotations?.[OWNED_KEY]);
    return memoryOf(managedAliases) > maxBytes ? undefined : shared(managedAliases);
  };
  return (raw) => {
    const { metadata = {} } = raw;
    const managedAliases = managedAliasesOf(raw);
    const { labels = {}, annotations = {} } = metadata;
    return {
      namespace: metadata.namespace ?? "",
      name: metadata.name ?? "",
      uid: metadata.uid ?? "",
      owner: controllerOf(metadata),
      inject: labels[INJECT_KEY],
      mirror: Object.hasOwn(annotations, MIRROR_KEY),
      hosts: truncate(annotations[HOSTS_KEY], MAX_HOSTS_TEXT),
      onChange: truncate(annotations[ON_CHANGE_KEY], MAX_WORD),
      managedAliases: managedAliases ?? NOTHING,
      ...(isByDns(annotations[REVISION_KEY]) && { byDns: true }),
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

/** About how many bytes of memory a list takes. */
function memoryOf(list: readonly HostAlias[]): number {
  let bytes = 0;
  for (const { hostnames } of list) {
    bytes += 160;
    for (const name of hostnames) bytes += 32 + name.length;
  }
  return bytes;
}
