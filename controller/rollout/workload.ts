import type { EffectiveOnChange } from "#hostmap/on-change.ts";
import type { Reason } from "#hostmap/types.ts";
import type { Config } from "#lib/config/schema.ts";
import type { Owner } from "#lib/workloads/owners.ts";
import type { PodFacts } from "#lib/workloads/pods.ts";

/**
 * The state of a workload. `in-step`: nothing to do. `waiting`: it will be restarted, or come into step, without
 * intervention. `left`: its configuration excludes it from updates. `stuck`: it stays stale until somebody
 * intervenes.
 */
export interface Decision extends Reason {
  readonly standing: "in-step" | "waiting" | "left" | "stuck";
  /** When to look again, by the monotonic clock of this process, in milliseconds. */
  readonly until?: number;
}

/** One owner of opted-in pods. `StalePods` updates it in place. Times are monotonic, in milliseconds. */
export interface Workload {
  readonly owner: Owner;
  /** Whether its namespace is in `restart.namespaces` or `optIn.namespaces`. */
  readonly listed: boolean;
  /** Its opted-in pods that are not terminating, by `namespace/name`. */
  readonly pods: Map<string, PodFacts>;
  /** The pods that do not have what a new pod would get. */
  stale: readonly PodFacts[];
  /** Number of pods that the webhook did not inject. */
  notInjected: number;
  /** How its first stale pod follows the map, or its first pod. */
  onChange: EffectiveOnChange;
  /** Whether a pod counts as live by a level above the workload, which may say otherwise. */
  liveByDefault: boolean;
  /** Why stale pods in mode `live` do not restart: their agent is not known yet, or cannot write their files. */
  agent: "unknown" | "problem" | undefined;
  /** Set if its pods select more names than a pod may have. */
  overCap: { readonly total: number; readonly cap: number } | undefined;
  /** Why nobody knows whether some pods are stale. */
  unfollowed: Reason | undefined;
  /** The revisions that new pods would get, and those of the stale pods. A change starts a new decision. */
  to: string;
  signature: string;
  /** When `to` last changed, when it stopped being stable, and when the first pod became stale. */
  since: number;
  changingSince: number;
  staleSince: number;
  /** The value of `switchback.dev/on-change` of the workload itself, and when it was read. Undefined: never. */
  read: { readonly onChange: string | undefined; readonly at: number } | undefined;
  decision: Decision;
}

/** The configuration of the leader's work on running pods. */
export type RestartConfig = Pick<Config, "namespace" | "restart" | "pods" | "optIn" | "inject">;

/** The limits of restarting. */
export type RestartRules = Omit<Config["restart"], "namespaces">;

export function inStep(text: string): Decision {
  return { standing: "in-step", code: "in-step", text };
}

export function waiting(code: string, text: string, until?: number): Decision {
  return { standing: "waiting", code, text, ...(until === undefined ? {} : { until }) };
}

export function stuck(code: string, text: string): Decision {
  return { standing: "stuck", code, text };
}

/** The decision about a workload that was not looked at yet. */
export const NOT_DECIDED = waiting("its-turn", "one workload at a time");

/** A workload whose pods are not known yet. `mode`: how pods follow the map by the configuration. */
export function newWorkload(owner: Owner, listed: boolean, mode: EffectiveOnChange["mode"]): Workload {
  return {
    owner,
    listed,
    pods: new Map(),
    stale: [],
    notInjected: 0,
    onChange: { mode, from: "install", problems: [] },
    liveByDefault: false,
    agent: undefined,
    overCap: undefined,
    unfollowed: undefined,
    to: "",
    signature: "",
    since: 0,
    changingSince: 0,
    staleSince: 0,
    read: undefined,
    decision: NOT_DECIDED,
  };
}
