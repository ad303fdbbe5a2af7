import type { KubeClient } from "#lib/kube/client.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { PodFacts } from "#lib/workloads/pods.ts";

/**
 * The agent on a pod's node. `alive`: it keeps the pod's hosts file current. `problem`: it is alive, and cannot write
 * the file of this pod. `silent`: it has not renewed its Lease for too long. `unknown`: not known yet.
 */
export type AgentOfPod = "alive" | "problem" | "silent" | "absent" | "unknown";

/** The agents, which edit the hosts files of pods in mode `live`. `extras/agent` reads their Leases. */
export interface Agents {
  of(pod: Pick<PodFacts, "namespace" | "name" | "node">): AgentOfPod;
  /** How many agents read the map. */
  readonly mapReaders: number;
  /** When the next agent becomes silent if it does not report again; undefined: never. */
  nextSilence(): number | undefined;
  /** The longest time, in milliseconds, since the watch last received or tried anything. */
  readonly inactiveMs: number;
  stop(): Promise<void>;
}

/** Starts to observe the agents. Called at the first pod in mode `live`. */
export type ObserveAgents = (deps: {
  readonly client: KubeClient;
  readonly log: Logger;
  /** A monotonic clock, milliseconds. */
  readonly now: () => number;
  /** Called when the state of a pod's agent may have changed. */
  readonly onChange: () => void;
}) => Agents;

/** Numbers of nodes with pods in mode `live`, by the state of their agent. */
export function countAgents(pods: Iterable<PodFacts>, agents: Pick<Agents, "of">): Readonly<Record<string, number>> {
  const nodes = new Map<string, AgentOfPod>();
  for (const pod of pods) if (pod.node !== undefined && !nodes.has(pod.node)) nodes.set(pod.node, agents.of(pod));
  const states = [...nodes.values()];
  const count = (...wanted: AgentOfPod[]) => states.filter((state) => wanted.includes(state)).length;
  return { alive: count("alive", "problem"), silent: count("silent"), absent: count("absent") };
}
