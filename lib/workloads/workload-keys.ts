/** Identifies a workload or another owner of pods. `kind` is `Pod` for a pod without an owner. */
export interface WorkloadName {
  readonly namespace: string;
  readonly kind: string;
  readonly name: string;
}

/** `namespace/Kind/name`. */
export function workloadKey({ namespace, kind, name }: WorkloadName): string {
  return `${namespace}/${kind}/${name}`;
}
