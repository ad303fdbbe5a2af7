import type { OnChange } from "#hostmap/on-change.ts";
import type { Reason } from "#hostmap/types.ts";
import type { WorkloadState } from "#lib/workloads/workload-state.ts";
import type { History } from "./restart-history.ts";

/** A pod that does not have what a new pod would get. */
export interface StalePod {
  /** Its `switchback.dev/revision`; undefined: the webhook did not inject it, or the annotation was removed. */
  readonly revision: string | undefined;
  readonly restartedAt: string | undefined;
}

/**
 * Lines of the hosts file: those that the pods' specs lack compared with new pods, and those that they have in
 * addition.
 */
export interface HostsDiff {
  readonly missing: number;
  readonly extra: number;
}

/** One owner of opted-in pods, and everything that decides about it. Times in milliseconds since 1970. */
export interface WorkloadFacts {
  /** `namespace/Kind/name`. */
  readonly key: string;
  readonly namespace: string;
  readonly kind: string;
  /** Why it cannot be restarted; undefined for a Deployment, StatefulSet or DaemonSet. */
  readonly unrestartable: Reason | undefined;
  /** Whether its namespace is in `restart.namespaces` or `optIn.namespaces`. */
  readonly permitted: boolean;
  /** `unknown`: not observed yet. `forbidden`: the controller may not read it. `absent`: it does not exist. */
  readonly state: WorkloadState | "unknown" | "forbidden" | "absent";
  readonly mode: OnChange;
  /** In mode `live`: whether what updates its stale pods works. */
  readonly updaters: "keeping" | "silent" | undefined;
  readonly stale: readonly StalePod[];
  /** The revision that new pods would get. */
  readonly to: string;
  /** When `to` last changed, when it last stopped being stable, and when the first pod became stale. */
  readonly since: number;
  readonly changingSince: number;
  readonly staleSince: number;
  /** Undefined: not read yet. */
  readonly diff: HostsDiff | undefined;
  /** No read of pods and no restart before: the last one was refused, or met a conflict. */
  readonly notBefore: number;
  readonly history: History | Reason;
}

/**
 * The state of a workload. `in-step`: nothing to do. `waiting`: it will be restarted, or will come into step,
 * without intervention. `left`: it is configured not to follow. `stuck`: it stays stale until somebody intervenes.
 */
export interface RolloutDecision extends Reason {
  readonly standing: "in-step" | "waiting" | "left" | "stuck";
  /** When to check again if nothing changes before. */
  readonly until?: number;
}
