import { OWNED_KEY } from "../hostmap/metadata-keys.ts";
import { deploymentOf } from "../workloads/workload-kinds.ts";

/** A pod, as far as it is looked at. */
export interface RawPod {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly ownerReferences?: ReadonlyArray<{
      readonly kind: string;
      readonly name: string;
      readonly controller?: boolean;
    }>;
  };
  readonly spec?: { readonly hostAliases?: ReadonlyArray<{ readonly ip: string }> };
  readonly status?: { readonly phase?: string };
}

interface Workload {
  readonly namespace: string;
  /** Of what makes the pods; `Pod` where nothing does. */
  readonly kind: string;
  readonly name: string;
}

/** The running pods of one workload that have something of ours in their hosts files. */
export interface AddressHolder extends Workload {
  readonly pods: readonly string[];
  /** Addresses that are free for any other Service once we are gone. Empty: the names lead elsewhere, to an ingress controller's own. */
  readonly addresses: readonly string[];
}

const ENDED = new Set(["Succeeded", "Failed"]);

/** What a pod has of ours, or undefined. Aliases count whoever wrote them: a template may have them from `switchback inject`. */
export function addressHolderOf(pod: RawPod, ours: ReadonlySet<string>): AddressHolder | undefined {
  if (ENDED.has(pod.status?.phase ?? "")) return undefined;
  const ips = new Set((pod.spec?.hostAliases ?? []).map(({ ip }) => ip));
  const addresses = [...ips].filter((ip) => ours.has(ip)).sort();
  const owned = pod.metadata.annotations?.[OWNED_KEY] ?? "none";
  if (addresses.length === 0 && owned === "none") return undefined;
  return { ...workloadOf(pod), pods: [pod.metadata.name], addresses };
}

/** What makes the pod. */
function workloadOf({ metadata: { namespace, name, labels, ownerReferences = [] } }: RawPod): Workload {
  const owner = ownerReferences.find(({ controller }) => controller);
  if (owner === undefined) return { namespace, kind: "Pod", name };
  const deployment = owner.kind === "ReplicaSet" ? deploymentOf(owner.name, labels?.["pod-template-hash"]) : undefined;
  if (deployment !== undefined) return { namespace, kind: "Deployment", name: deployment };
  return { namespace, kind: owner.kind, name: owner.name };
}

export function workloadKey({ namespace, kind, name }: Workload): string {
  return `${namespace}/${kind}/${name}`;
}

/** One entry a workload, in order of their keys. */
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
