import { list, replay } from "./history.ts";
import type { System } from "./system.ts";

// Restarts as they were written, read from the history that the API server still has.

interface RawDeployment {
  readonly metadata: { readonly name: string; readonly generation: number };
  readonly spec: {
    readonly replicas: number;
    readonly template: { readonly metadata: { readonly annotations?: Readonly<Record<string, string>> } };
  };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly replicas?: number;
    readonly updatedReplicas?: number;
    readonly availableReplicas?: number;
  };
}

/** What happened to the Deployments of a namespace. */
export interface Rollouts {
  /** The Deployments that we restarted, in that order. */
  readonly restarted: readonly string[];
  /** Maximum number of rollouts at the same time. */
  readonly atOnce: number;
}

/** Starts to record a namespace's Deployments. The returned function gives what has happened since then. */
export async function recordRollouts(system: System, namespace: string): Promise<() => Promise<Rollouts>> {
  const path = `/apis/apps/v1/namespaces/${namespace}/deployments`;
  const { version, items } = await list<RawDeployment>(system, path);
  const stamps = new Map(items.map((item) => [item.metadata.name, stampOf(item)]));
  return async () => {
    const restarted: string[] = [];
    const underWay = new Set<string>();
    let atOnce = 0;
    const events = await replay<RawDeployment>(system, path, version);
    for (const { type, object } of events) {
      const { name } = object.metadata;
      const stamp = stampOf(object);
      if (stamp !== stamps.get(name)) restarted.push(name);
      stamps.set(name, stamp);
      if (type === "DELETED" || isRolledOut(object)) underWay.delete(name);
      else underWay.add(name);
      atOnce = Math.max(atOnce, underWay.size);
    }
    return { restarted, atOnce };
  };
}

function stampOf({ spec }: RawDeployment): string | undefined {
  return spec.template.metadata.annotations?.["switchback.dev/restartedAt"];
}

/** Whether `kubectl rollout status` would say that the rollout is complete. */
function isRolledOut({ metadata, spec: { replicas: wanted }, status = {} }: RawDeployment): boolean {
  const { observedGeneration = 0, replicas = 0, updatedReplicas = 0, availableReplicas = 0 } = status;
  if (observedGeneration < metadata.generation) return false;
  return updatedReplicas === wanted && replicas === wanted && availableReplicas === wanted;
}
