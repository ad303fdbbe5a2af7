import { OWNED_KEY } from "../hostmap/metadata-keys.ts";
import { inferFromNames, ownerOf } from "../workloads/owners.ts";
import { hasEnded, hostAliasesOf, podFacts, type RawPod } from "../workloads/pods.ts";
import { type WorkloadName, workloadKey } from "../workloads/workload-keys.ts";

/** The running pods of one workload that have hosts entries of Switchback. */
export interface AddressHolder extends WorkloadName {
  /** It is a Deployment, StatefulSet or DaemonSet. */
  readonly restartable: boolean;
  readonly pods: readonly string[];
  /** Addresses that any other Service may get after the uninstall. Empty: the names have addresses of an ingress controller itself. */
  readonly addresses: readonly string[];
}

/**
 * What a pod has of Switchback, or undefined. `ours` are the addresses of its front Services. Aliases count regardless of who wrote them: a
 * template may have them from `switchback inject`.
 */
export function addressHolderOf(pod: RawPod, ours: ReadonlySet<string>): AddressHolder | undefined {
  if (hasEnded(pod)) return undefined;
  const ips = new Set(hostAliasesOf(pod).map(({ ip }) => ip));
  const addresses = [...ips].filter((ip) => ours.has(ip)).sort();
  const owned = pod.metadata?.annotations?.[OWNED_KEY] ?? "none";
  if (addresses.length === 0 && owned === "none") return undefined;
  const facts = podFacts(pod);
  const { namespace, kind, name, unrestartable } = ownerOf(facts, inferFromNames);
  return { namespace, kind, name, restartable: unrestartable === undefined, pods: [facts.name], addresses };
}

/** One entry per workload, in order of their keys. */
export function byWorkload(holders: readonly AddressHolder[]): AddressHolder[] {
  const groups = Map.groupBy(holders, workloadKey);
  return [...groups.keys()].sort().flatMap((key) => {
    const [first, ...rest] = groups.get(key) ?? [];
    if (first === undefined) return [];
    const all = [first, ...rest];
    const addresses = [...new Set(all.flatMap((holder) => holder.addresses))].sort();
    return { ...first, pods: all.flatMap(({ pods }) => pods).sort(), addresses };
  });
}
