import type { EffectiveOnChange } from "#hostmap/on-change.ts";
import type { Reason } from "#hostmap/types.ts";
import type { Config } from "#lib/config/schema.ts";
import type { MapReader } from "#lib/documents/map-reader.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { EventRecorder } from "#lib/kube/events.ts";
import type { Logger } from "#lib/telemetry/log.ts";
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
export class Workload {
  readonly owner: Owner;
  /** Whether its namespace is in `restart.namespaces` or `optIn.namespaces`. */
  readonly listed: boolean;
  /** Its opted-in pods that are not terminating. */
  pods: readonly PodFacts[] = [];
  /** The pods that do not have what a new pod would get. */
  stale: readonly PodFacts[] = [];
  /** How its first stale pod follows the map, or its first pod. */
  onChange: EffectiveOnChange = { mode: "restart", from: "install", problems: [] };
  /** Why nobody knows whether some pods are stale. */
  unfollowed: Reason | undefined;
  /** Hash of the revisions that new pods would get. A change starts a new decision. */
  to = "";
  /** When `to` last changed, and when the first pod became stale. */
  since = 0;
  staleSince = 0;
  /** The value of `switchback.dev/on-change` of the workload itself, and when it was read. Undefined: never. */
  read: { readonly onChange: string | undefined; readonly at: number } | undefined;
  /** The stamp of the last restart whose rollout was seen complete. */
  completed: number | undefined;
  decision: Decision = ITS_TURN;
  /** Whether only its own state, its restarts and the time decide about it. */
  isQueued = false;
  /** The code of the last Event about it. Undefined: none since it was in step. */
  reported: string | undefined;

  constructor(owner: Owner, listed: boolean) {
    this.owner = owner;
    this.listed = listed;
  }
}

/** The latest time of a restart that a pod carries, in milliseconds since 1970. 0: none. Owners can forge it. */
export function lastRestart({ pods }: Pick<Workload, "pods">): number {
  return Math.max(0, ...pods.map(({ restartedAt }) => Date.parse(restartedAt ?? "") || 0));
}

/** The agents, which edit the hosts files of pods in mode `live`. `extras/agent` reads their Leases. */
export interface Agents {
  /** Whether the agent on the pod's node keeps its hosts file current, or nobody knows yet. */
  isCurrent(pod: PodFacts): boolean;
  /** How many agents read the map. */
  readonly mapReaders: number;
  /** The longest time, in milliseconds, since the watch last received or tried anything. */
  readonly inactiveMs: number;
  stop(): Promise<void>;
}

/** Starts to observe the agents. Called at the first pod in mode `live`. `onChange`: the state of an agent changed. */
export type ObserveAgents = (
  deps: Pick<RestarterDeps, "client" | "log" | "now"> & { readonly onChange: () => void },
) => Agents;

export interface RestarterDeps {
  readonly client: KubeClient;
  readonly config: Pick<Config, "namespace" | "restart" | "pods" | "optIn" | "inject">;
  /** The published map. */
  readonly maps: MapReader;
  /** Undefined: no agent edits the hosts files of running pods. */
  readonly observeAgents?: ObserveAgents | undefined;
  readonly events: Pick<EventRecorder, "record">;
  /** Count restarts that were sent, and rollouts that failed. */
  readonly counters: Readonly<Record<"restarted" | "failed", { inc(): void }>>;
  /** Aborts when the leader's term ends. */
  readonly signal: AbortSignal;
  readonly log: Logger;
  /** A monotonic clock, milliseconds. */
  readonly now: () => number;
  /** Milliseconds since 1970, for recorded times. */
  readonly wallClock: () => number;
}

export function waiting(code: string, text: string, until?: number): Decision {
  return { standing: "waiting", code, text, ...(until === undefined ? {} : { until }) };
}

export function stuck(code: string, text: string): Decision {
  return { standing: "stuck", code, text };
}

/** The decision about a workload that was not looked at yet. */
export const ITS_TURN = waiting("delayed", "one workload at a time; namespaces take turns");
