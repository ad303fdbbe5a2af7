import { resourcePath } from "#lib/kube/paths.ts";

/** Kinds whose controllers recreate the pods when the pod template changes. All are in the group apps/v1. */
const RESOURCES = { Deployment: "deployments", StatefulSet: "statefulsets", DaemonSet: "daemonsets" } as const;
export type WorkloadKind = keyof typeof RESOURCES;

/** Whether a change of the pod template recreates the pods. Only these kinds can be restarted. */
export function isWorkloadKind(kind: string): kind is WorkloadKind {
  return Object.hasOwn(RESOURCES, kind);
}

/** API path of one workload, or of all workloads of its kind in a namespace. `kind`: see `isWorkloadKind`. */
export function workloadPath(namespace: string, kind: string, name?: string): string {
  return appsPath(RESOURCES[kind as WorkloadKind], namespace, name);
}

/** API path of one ReplicaSet, or of all ReplicaSets in a namespace. */
export function replicaSetPath(namespace: string, name?: string): string {
  return appsPath("replicasets", namespace, name);
}

function appsPath(resource: string, namespace: string, name: string | undefined): string {
  return resourcePath({ group: "apps", version: "v1", namespace, resource, ...(name === undefined ? {} : { name }) });
}
