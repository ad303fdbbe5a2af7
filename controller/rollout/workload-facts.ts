import type { OnChange } from "../../hostmap/on-change.ts";
import type { Reason } from "../../hostmap/types.ts";
import type { WorkloadState } from "../../workloads/workload-state.ts";
import type { History } from "./restart-history.ts";

/** A pod that has not what it should have. */
export interface StalePod {
  /** Its `switchback.dev/revision`; undefined: the webhook never saw it, or somebody took the annotation away. */
  readonly revision: string | undefined;
  readonly restartedAt: string | undefined;
}

/** What the pods' specs lack of what new pods would get, and have beyond it: lines of the hosts file. */
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
  /** Whether its namespace is listed. */
  readonly permitted: boolean;
  /** `unknown`: not seen yet, or not readable. `absent`: there is none. */
  readonly state: WorkloadState | "unknown" | "absent";
  readonly mode: OnChange;
  /** For mode `live`: whether the agents of its stale pods' nodes are at work. */
  readonly agents: "keeping" | "silent" | undefined;
  readonly stale: readonly StalePod[];
  /** The revision that new pods would get. */
  readonly to: string;
  /** When `to` last changed, when it last stopped being stable, and since when there are stale pods. */
  readonly since: number;
  readonly changingSince: number;
  readonly staleSince: number;
  /** Undefined: not looked at yet. */
  readonly diff: HostsDiff | undefined;
  /** No read of pods and no restart before: the last one was refused, or met a conflict. */
  readonly notBefore: number;
  readonly history: History | Reason;
}

/**
 * What becomes of a workload. `in-step`: nothing to do. `waiting`: it will be restarted, or come into step by itself, without
 * anybody. `left`: nobody wants it to follow. `stuck`: it stays as it is until somebody does something.
 */
export interface RolloutVerdict extends Reason {
  readonly standing: "in-step" | "waiting" | "left" | "stuck";
  /** When to look again, if nothing happens before. */
  readonly until?: number;
}
