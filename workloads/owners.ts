import type { Reason } from "../hostmap/types.ts";
import type { PodFacts } from "./pods.ts";
import { deploymentOf, isWorkloadKind } from "./workload-kinds.ts";

/** The thing that has to be changed for a pod to be made anew. */
export interface Owner {
  /** `namespace/Kind/name`. */
  readonly key: string;
  readonly kind: string;
  readonly name: string;
  /** Why a restart of it is not for us to do. */
  readonly unrestartable: Reason | undefined;
}

/** A ReplicaSet's own owner, where ReplicaSets may be read; undefined: not known. */
export type OwnerOfReplicaSet = (
  namespace: string,
  name: string,
) => { kind: string; name: string } | "none" | undefined;

const APPS = "apps/";

/**
 * Pod -> ReplicaSet -> Deployment, or StatefulSet, or DaemonSet. Where ReplicaSets may not be read, the Deployment's name is told from
 * theirs; nothing is restarted there.
 */
export function ownerOf(pod: PodFacts, replicaSetOwner: OwnerOfReplicaSet): Owner {
  const { namespace, name, owner } = pod;
  if (owner === undefined) {
    return made(namespace, "Pod", name, reason("bare-pod", "a pod of its own: whoever made it has to make it anew"));
  }
  if (owner.kind === "Job") {
    return made(namespace, "Job", owner.name, reason("job", "a Job's pod: it ends by itself, and the next one is new"));
  }
  if (!owner.apiVersion.startsWith(APPS)) return unknown(namespace, owner.kind, owner.name);
  if (owner.kind !== "ReplicaSet") return known(namespace, owner.kind, owner.name);
  const parent = replicaSetOwner(namespace, owner.name) ?? guessed(owner.name, pod.templateHash);
  return parent === "none" ? unknown(namespace, owner.kind, owner.name) : known(namespace, parent.kind, parent.name);
}

function guessed(replicaSet: string, templateHash: string | undefined): { kind: string; name: string } | "none" {
  const name = deploymentOf(replicaSet, templateHash);
  return name === undefined ? "none" : { kind: "Deployment", name };
}

function known(namespace: string, kind: string, name: string): Owner {
  return isWorkloadKind(kind) ? made(namespace, kind, name, undefined) : unknown(namespace, kind, name);
}

function unknown(namespace: string, kind: string, name: string): Owner {
  return made(namespace, kind, name, reason("unknown-owner", `owned by a ${kind}, which is not known how to restart`));
}

function made(namespace: string, kind: string, name: string, unrestartable: Reason | undefined): Owner {
  return { key: `${namespace}/${kind}/${name}`, kind, name, unrestartable };
}

function reason(code: string, text: string): Reason {
  return { code, text };
}
