import { ON_CHANGE_KEY, RESTARTED_KEY, RESTARTS_KEY } from "#hostmap/metadata-keys.ts";
import type { Reason } from "#hostmap/types.ts";
import type { ObjectMeta } from "#lib/kube/types.ts";
import { notRestartable } from "./owners.ts";
import type { WorkloadKind } from "./workload-kinds.ts";

/** The parts of apps/v1 workloads that are read. The fields of the three kinds do not contradict each other. */
export interface RawWorkload {
  readonly metadata: ObjectMeta;
  readonly spec?: {
    readonly replicas?: number;
    readonly paused?: boolean;
    readonly updateStrategy?: { readonly type?: string; readonly rollingUpdate?: { readonly partition?: number } };
    readonly template?: {
      readonly metadata?: { readonly annotations?: Readonly<Record<string, string>> };
      readonly spec?: {
        readonly hostAliases?: ReadonlyArray<{ readonly ip: string }> | null;
        readonly dnsConfig?: { readonly nameservers?: readonly string[] | null } | null;
      };
    };
  };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly replicas?: number;
    readonly updatedReplicas?: number;
    readonly readyReplicas?: number;
    readonly availableReplicas?: number;
    readonly currentRevision?: string;
    readonly updateRevision?: string;
    readonly desiredNumberScheduled?: number;
    readonly updatedNumberScheduled?: number;
    readonly numberAvailable?: number;
    readonly conditions?: ReadonlyArray<{ readonly type: string; readonly status: string }>;
  };
}

/** The parts of a Deployment, StatefulSet or DaemonSet that decide whether it may be restarted. */
export interface WorkloadState {
  readonly uid: string;
  readonly resourceVersion: string;
  readonly generation: number;
  /** `switchback.dev/restartedAt` of its pod template. */
  readonly restartedAt: string | undefined;
  /** `switchback.dev/restarts` of the workload itself: the controller's record of its restarts. */
  readonly restarts: string | undefined;
  /** `switchback.dev/on-change` of the workload itself. */
  readonly onChange: string | undefined;
  /** The reason why it must not be restarted, however stale it is: paused, OnDelete, a partition, or being deleted. */
  readonly refusal: Reason | undefined;
  /** What is missing. Undefined if it is rolled out and every replica is available. */
  readonly unsettled: string | undefined;
  /** Whether the rollout exceeded its progress deadline. */
  readonly failed: boolean;
}

/** Returns the state of a workload of `kind`: see `isWorkloadKind`. */
export function workloadState(kind: string, raw: RawWorkload): WorkloadState {
  const { metadata, spec = {}, status = {} } = raw;
  return {
    uid: metadata.uid ?? "",
    resourceVersion: metadata.resourceVersion ?? "",
    generation: metadata.generation ?? 0,
    restartedAt: spec.template?.metadata?.annotations?.[RESTARTED_KEY],
    restarts: metadata.annotations?.[RESTARTS_KEY],
    onChange: metadata.annotations?.[ON_CHANGE_KEY],
    refusal: refusalOf(raw),
    unsettled: isSeen(raw) ? MISSING[kind as WorkloadKind](raw) : "its controller has not yet seen the last change",
    // The Deployment controller sets this condition when a rollout makes no progress for progressDeadlineSeconds. Until
    // the controller has seen the last change, the condition belongs to the previous rollout.
    failed:
      isSeen(raw) && (status.conditions ?? []).some(({ type, status: is }) => type === "Progressing" && is === "False"),
  };
}

function refusalOf({ metadata, spec = {} }: RawWorkload): Reason | undefined {
  const { paused, updateStrategy = {} } = spec;
  if (metadata.deletionTimestamp !== undefined) return notRestartable("it is being deleted");
  if (paused) return notRestartable("spec.paused: its rollout is paused");
  if (updateStrategy.type === "OnDelete")
    return notRestartable("its update strategy is OnDelete: its pods are recreated only when they are deleted");
  if ((updateStrategy.rollingUpdate?.partition ?? 0) > 0)
    return notRestartable("its update strategy has a partition: a restart would reach only some of its pods");
  return undefined;
}

function isSeen({ metadata, status = {} }: RawWorkload): boolean {
  return (status.observedGeneration ?? 0) >= (metadata.generation ?? 0);
}

/** What `kubectl rollout status` would wait for. Undefined if it would not wait. */
const MISSING: Readonly<Record<WorkloadKind, (raw: RawWorkload) => string | undefined>> = {
  Deployment({ spec = {}, status = {} }) {
    const { replicas: wanted = 1 } = spec;
    const { replicas = 0, updatedReplicas = 0, availableReplicas = 0 } = status;
    if (updatedReplicas < wanted) return `${updatedReplicas} of ${wanted} replicas updated`;
    if (replicas > updatedReplicas) return `${replicas - updatedReplicas} old replicas still there`;
    return short(availableReplicas, wanted);
  },
  StatefulSet({ spec = {}, status = {} }) {
    const { replicas: wanted = 1 } = spec;
    if (status.updateRevision !== status.currentRevision) return "not every replica is updated";
    return short(Math.min(status.readyReplicas ?? 0, status.availableReplicas ?? 0), wanted);
  },
  DaemonSet({ status = {} }) {
    const { desiredNumberScheduled: wanted = 0, updatedNumberScheduled = 0, numberAvailable = 0 } = status;
    if (updatedNumberScheduled < wanted) return `${updatedNumberScheduled} of ${wanted} pods updated`;
    return short(numberAvailable, wanted);
  },
};

function short(available: number, wanted: number): string | undefined {
  return available < wanted ? `${available} of ${wanted} available` : undefined;
}
