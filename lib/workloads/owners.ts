import type { Reason } from "#hostmap/types.ts";
import type { ObjectMeta } from "#lib/kube/types.ts";
import { controllerOf, type OwnerRef, type PodFacts } from "./pods.ts";
import { type WorkloadName, workloadKey } from "./workload-keys.ts";
import { isWorkloadKind } from "./workload-kinds.ts";

/**
 * RFC 1123 subdomain. The API server checks only that an owner's name is not empty. So any user with the right to
 * create pods can set any text.
 */
export const WORKLOAD_NAME = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

/** The object that must change before its controller recreates a pod. */
export interface Owner extends WorkloadName {
  /** `namespace/Kind/name`. */
  readonly key: string;
  /** Why it cannot be restarted; undefined for a Deployment, StatefulSet or DaemonSet. */
  readonly unrestartable: Reason | undefined;
}

/** A ReplicaSet's owner in the group apps, or "none". */
export type ReplicaSetOwner = { readonly kind: string; readonly name: string } | "none";

/**
 * Returns the owner of a pod: its Deployment, StatefulSet, DaemonSet or other owner. `parent` is the owner of its
 * ReplicaSet; default: inferred from names.
 */
export function ownerOf(pod: PodFacts, parent = inferDeployment(pod)): Owner {
  const { namespace, name, owner } = pod;
  if (owner === undefined) {
    const reason = notRestartable("a pod without a controller: nothing recreates it once it is deleted");
    return newOwner(namespace, "Pod", name, reason);
  }
  if (owner.kind === "Job") {
    const reason = notRestartable("a Job's pod: it ends by itself, and the next one is new");
    return newOwner(namespace, "Job", owner.name, reason);
  }
  if (!isApps(owner)) return unknownOwner(namespace, owner.kind, owner.name);
  if (owner.kind !== REPLICA_SET || !WORKLOAD_NAME.test(owner.name))
    return appsOwner(namespace, owner.kind, owner.name);
  return parent === "none"
    ? unknownOwner(namespace, owner.kind, owner.name)
    : appsOwner(namespace, parent.kind, parent.name);
}

/** A ReplicaSet's owner, from the ReplicaSet's metadata. */
export function replicaSetOwner(metadata: ObjectMeta | undefined): ReplicaSetOwner {
  const owner = controllerOf(metadata);
  return owner !== undefined && isApps(owner) ? { kind: owner.kind, name: owner.name } : "none";
}

const REPLICA_SET = "ReplicaSet";

/** Whether a pod's owner may be a ReplicaSet, whose own owner has to be looked up. */
export function isReplicaSet(owner: OwnerRef | undefined): owner is OwnerRef {
  return owner !== undefined && isApps(owner) && owner.kind === REPLICA_SET && WORKLOAD_NAME.test(owner.name);
}

function isApps({ apiVersion }: OwnerRef): boolean {
  return apiVersion.startsWith("apps/");
}

/**
 * Infers the Deployment from names alone, which needs no right to read ReplicaSets. The Deployment controller names a
 * ReplicaSet `<deployment>-<pod-template-hash>` and labels its pods with the hash. Other owners of ReplicaSets use
 * other labels.
 */
function inferDeployment({ owner, templateHash }: PodFacts): ReplicaSetOwner {
  const suffix = `-${templateHash}`;
  if (owner === undefined || templateHash === undefined || !owner.name.endsWith(suffix)) return "none";
  return { kind: "Deployment", name: owner.name.slice(0, -suffix.length) };
}

function appsOwner(namespace: string, kind: string, name: string): Owner {
  const isKnown = isWorkloadKind(kind);
  if (!isKnown && kind !== REPLICA_SET) return unknownOwner(namespace, kind, name);
  if (!WORKLOAD_NAME.test(name)) {
    const text = `the name of its owner is not a valid name of a ${kind}`;
    return newOwner(namespace, kind, name, { code: "owner-name-invalid", text });
  }
  return isKnown ? newOwner(namespace, kind, name, undefined) : unknownOwner(namespace, kind, name);
}

function unknownOwner(namespace: string, kind: string, name: string): Owner {
  return newOwner(namespace, kind, name, notRestartable(`owned by a ${kind}, which Switchback cannot restart`));
}

/** The reason why a workload, or the owner of a pod, allows no restart. */
export function notRestartable(text: string): Reason {
  return { code: "not-restartable", text };
}

/** The reason why the controller restarts no workload of a namespace. */
export function notPermitted(namespace: string): Reason {
  const text = `${namespace} is not in restart.namespaces or optIn.namespaces; restart the workload by hand`;
  return { code: "restart-not-permitted", text };
}

function newOwner(namespace: string, kind: string, name: string, unrestartable: Reason | undefined): Owner {
  return { namespace, kind, name, key: workloadKey({ namespace, kind, name }), unrestartable };
}
