import type { Agents, ObserveAgents } from "#controller/rollout/workload.ts";
import type { Config } from "#lib/config/schema.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { Lease } from "#lib/kube/lease.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { PodFacts } from "#lib/workloads/pods.ts";
import {
  AGENT_LEASE_SELECTOR,
  type AgentLease,
  agentLeaseName,
  agentLeasePath,
  parseAgentLease,
} from "../agent-lease-format.ts";
import { RENEW_MS } from "../config.ts";

/**
 * The agent on a pod's node. `alive`: it keeps the pod's hosts file current. `problem`: it is alive, and cannot write
 * the file of this pod. `silent`: it has not renewed its Lease for too long. `unknown`: not known yet.
 */
type AgentOfPod = "alive" | "problem" | "silent" | "absent" | "unknown";

interface Heard extends AgentLease {
  /** When the last renewal was seen, by our own clock: the clocks of nodes are not trusted. */
  readonly at: number;
}

/** Observes, through the agents' Leases, whether the hosts files of running pods are current. */
export function observeAgents(namespace: string, pods: Config["pods"]): ObserveAgents {
  const silenceMs = pods.agentSilenceSeconds * 1000;
  // A working agent renews its Lease at least once in this time.
  const graceMs = 2 * RENEW_MS;
  return (deps) => new AgentLeaseReader({ ...deps, namespace, silenceMs, graceMs });
}

/**
 * Follows the agents' Leases. When a Lease is first seen, its silence counts from its own renewTime, so that nothing
 * waits for a dead agent again. The reader may have been without a watch: the process has just become leader, or the
 * API server was away. After that, no agent counts as silent for `graceMs`, because agents could not renew their
 * Leases either.
 */
export class AgentLeaseReader implements Agents {
  readonly #silenceMs: number;
  readonly #graceMs: number;
  readonly #now: () => number;
  readonly #heard = new Map<string, Heard>();
  readonly #watcher: Informer<unknown>;
  readonly #namespace: string;
  #listeningSince: number;

  constructor(deps: {
    client: Pick<KubeClient, "get" | "stream">;
    log: Logger;
    namespace: string;
    silenceMs: number;
    graceMs: number;
    now: () => number;
    onChange: () => void;
  }) {
    this.#silenceMs = deps.silenceMs;
    this.#graceMs = deps.graceMs;
    this.#listeningSince = deps.now();
    this.#now = deps.now;
    this.#namespace = deps.namespace;
    this.#watcher = watchObjects<AgentLease, Lease>({
      client: deps.client,
      path: agentLeasePath(deps.namespace),
      labelSelector: AGENT_LEASE_SELECTOR,
      project: parseAgentLease,
      onChange: ({ key, after }) => {
        const before = this.#heard.get(key);
        const wasAlive = before !== undefined && this.#now() < this.#silentAt(before);
        if (after === undefined) this.#heard.delete(key);
        else this.#heard.set(key, { ...after, at: this.#heardAt(key, after.renewTime) });
        // If an agent is alive, a renewal alone changes nothing that a caller reads.
        if (!wasAlive || after === undefined || !isSameReport(before, after)) deps.onChange();
      },
      onSynced: deps.onChange,
      log: deps.log,
    });
  }

  isCurrent(pod: PodFacts): boolean {
    return ["alive", "unknown"].includes(this.of(pod));
  }

  /** The agent on a pod's node. `unknown`: the Leases or the node are not known yet. */
  of({ namespace, name, node }: PodFacts): AgentOfPod {
    if (!this.#synced || node === undefined) return "unknown";
    const heard = this.#heard.get(`${this.#namespace}/${agentLeaseName(node)}`);
    if (heard === undefined) return "absent";
    if (!this.#watcher.state.following) this.#listeningSince = this.#now();
    if (this.#now() >= this.#silentAt(heard)) return "silent";
    return heard.problems.includes(`${namespace}/${name}`) ? "problem" : "alive";
  }

  /** Whether all Leases were read, or are known not to be readable. */
  get #synced(): boolean {
    const { synced, problem } = this.#watcher.state;
    return synced || problem?.code === "forbidden" || problem?.code === "not-found";
  }

  /**
   * Number of living agents that follow the map. An agent does not count if it reports that neither a pod of its node
   * nor the node itself follows.
   */
  get mapReaders(): number {
    const now = this.#now();
    const heard = [...this.#heard.values()];
    const follows = ({ podRevisions, nodeHosts }: AgentLease) => podRevisions?.length !== 0 || nodeHosts !== undefined;
    return heard.filter((each) => follows(each) && now < this.#silentAt(each)).length;
  }

  get inactiveMs(): number {
    return this.#watcher.state.inactiveMs;
  }

  async stop(): Promise<void> {
    await this.#watcher.stop();
  }

  #silentAt({ at }: Heard): number {
    return Math.max(at + this.#silenceMs, this.#listeningSince + this.#graceMs);
  }

  #heardAt(key: string, renewTime: string | undefined): number {
    const before = this.#heard.get(key);
    if (before === undefined) return Math.min(this.#now(), Date.parse(renewTime ?? "") || 0);
    return before.renewTime === renewTime ? before.at : this.#now();
  }
}

function isSameReport(one: AgentLease, other: AgentLease): boolean {
  return one.problems.join() === other.problems.join();
}
