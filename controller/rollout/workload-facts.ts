import type { OnChange } from "#hostmap/on-change.ts";
import type { Reason } from "#hostmap/types.ts";
import type { WorkloadState } from "#lib/workloads/workload-state.ts";
import type { History } from "./restart-history.ts";

/** A pod that does not have what a new pod would get. */
export interface StalePod {
  /** The pod's `switchback.dev/revision`; undefined: the webhook did not inject it, or the annotation was removed. */
  readonly revision: string | undefined;
  readonly restartedAt: string | undefined;
}

/**
 * Numbers of hosts file lines that differ from those of new pods: the lines that a pod lacks, and those that it has
 * in addition.
 */
export interface HostsDiff {
  readonly missing: number;
  readonly extra: number;
}

/** One owner of opted-in pods, and all facts that decide about it. Times are in milliseconds since 1970. */
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
  /** In mode `live`: whether the updater of its stale pods works. */
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
  /** Neither a read of pods nor a restart before this time: the last one was refused or met a conflict. */
  readonly notBefore: number;
  readonly history: History | Reason;
}

/**
 * The state of a workload. `in-step`: nothing to do. `waiting`: it will be restarted, or come into step, without
 * intervention. `left`: its configuration excludes it from updates. `stuck`: it stays stale until somebody
 * intervenes.
 */
export interface RolloutDecision extends Reason {
  readonly standing: "in-step" | "waiting" | "left" | "stuck";
  /** When to check again if nothing changes until then. */
  readonly until?: number;
}
