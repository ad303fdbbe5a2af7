import { resourcePath } from "../kube/paths.ts";

/** Kinds that make their pods anew when their template changes, all of the group apps/v1. */
const RESOURCES = { Deployment: "deployments", StatefulSet: "statefulsets", DaemonSet: "daemonsets" } as const;
export type WorkloadKind = keyof typeof RESOURCES;
export const WORKLOAD_KINDS = Object.keys(RESOURCES) as readonly WorkloadKind[];

/** Whether pods of it are made anew by a change of its template: what may be restarted at all. */
export function isWorkloadKind(kind: string): kind is WorkloadKind {
  return Object.hasOwn(RESOURCES, kind);
}

/** Path of one workload in the API, or of all of its kind in a namespace. */
export function workloadPath(namespace: string, kind: WorkloadKind, name?: string): string {
  const resource = RESOURCES[kind];
  return resourcePath({ group: "apps", version: "v1", namespace, resource, ...(name === undefined ? {} : { name }) });
}

/**
 * Name of the Deployment that made a ReplicaSet, told from names alone, so that no right to read ReplicaSets is needed. The Deployment
 * controller calls them `<deployment>-<pod-template-hash>` and gives the pods that hash as a label; other owners of ReplicaSets have
 * labels of their own. Undefined: no Deployment's.
 */
export function deploymentOf(replicaSet: string, templateHash: string | undefined): string | undefined {
  const suffix = `-${templateHash}`;
  if (templateHash === undefined || !replicaSet.endsWith(suffix)) return undefined;
  return replicaSet.slice(0, -suffix.length);
}
