import { OWNED_KEY } from "#hostmap/metadata-keys.ts";
import { holdsResolvers } from "#hostmap/pod-dns-marks.ts";
import { ownerOf } from "#lib/workloads/owners.ts";
import { hasEnded, hostAliasesOf, podFacts, type RawPod } from "#lib/workloads/pods.ts";
import { type WorkloadName, workloadKey } from "#lib/workloads/workload-keys.ts";

/** The running pods of one workload that have hosts entries or resolvers from Switchback. */
export interface AddressHolder extends WorkloadName {
  /** Whether the workload is a Deployment, StatefulSet or DaemonSet. */
  readonly restartable: boolean;
  readonly pods: readonly string[];
  /**
   * Addresses that any other Service may get after the uninstall. Empty if the names have an ingress controller's own
   * addresses.
   */
  readonly addresses: readonly string[];
}

/**
 * The holder that a pod belongs to, or undefined. `ours` are the addresses of Switchback's Services. Aliases and
 * nameservers count even if the webhook did not write them: a template may have them from `switchback inject`, or
 * copied from a pod. Nameservers from pod DNS count even if their Services are gone.
 */
export function addressHolderOf(pod: RawPod, ours: ReadonlySet<string>): AddressHolder | undefined {
  if (hasEnded(pod)) return undefined;
  const annotations = pod.metadata?.annotations ?? {};
  const nameservers = resolversOf(pod, ours);
  const ips = new Set(hostAliasesOf(pod).map(({ ip }) => ip));
  const addresses = [...new Set([...[...ips].filter((ip) => ours.has(ip)), ...nameservers])].sort();
  const owned = annotations[OWNED_KEY] ?? "none";
  if (addresses.length === 0 && owned === "none") return undefined;
  const facts = podFacts(pod);
  const { namespace, kind, name, unrestartable } = ownerOf(facts);
  return { namespace, kind, name, restartable: unrestartable === undefined, pods: [facts.name], addresses };
}

function resolversOf({ metadata, spec }: RawPod, ours: ReadonlySet<string>): readonly string[] {
  const nameservers = spec?.dnsConfig?.nameservers ?? [];
  const pod = { dnsPolicy: spec?.dnsPolicy, dnsConfig: { nameservers }, annotations: metadata?.annotations ?? {} };
  return holdsResolvers(pod) ? nameservers : nameservers.filter((ip) => ours.has(ip));
}

/** Merges the holders into one entry per workload, in the order of their keys. */
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
