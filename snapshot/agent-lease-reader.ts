import type { KubeClient } from "../kube/client.ts";
import type { Lease } from "../kube/lease-record.ts";
import { resourcePath } from "../kube/paths.ts";
import { type Informer, watchObjects } from "../kube/watch.ts";
import type { Logger } from "../telemetry/log.ts";
import { AGENT_LEASE_LABELS, agentLeaseName, appliedRevision } from "./agent-lease.ts";

/** A node's agent, as its Lease tells. */
export interface AgentState {
  /** Heard of within `pods.agentSilenceSeconds`. */
  readonly alive: boolean;
  /** Revision of the map that every pod of the node follows. */
  readonly revision: string | undefined;
}

interface Heard {
  readonly renewTime: string | undefined;
  readonly revision: string | undefined;
  /** When the last renewal was seen, by our own clock: the clocks of nodes are not to be trusted. */
  readonly at: number;
}

/**
 * The agents' Leases. A Lease that is seen for the first time counts from its own renewTime, so that a dead one is not waited for
 * as long again. But whoever has not listened for a while, because it has just begun to lead or the API server was away, has to do so
 * for `graceMs`: what kept us from hearing kept the agents from speaking.
 */
export class AgentLeaseReader {
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
    this.#watcher = watchObjects<Omit<Heard, "at">, Lease>({
      client: deps.client,
      path: resourcePath({
        group: "coordination.k8s.io",
        version: "v1",
        namespace: deps.namespace,
        resource: "leases",
      }),
      labelSelector: Object.entries(AGENT_LEASE_LABELS)
        .map((label) => label.join("="))
        .join(),
      project: ({ metadata, spec }) => ({ renewTime: spec?.renewTime, revision: appliedRevision(metadata) }),
      onChange: ({ key, after }) => {
        if (after === undefined) this.#heard.delete(key);
        else this.#heard.set(key, { ...after, at: this.#heardAt(key, after.renewTime) });
        deps.onChange();
      },
      onSynced: deps.onChange,
      log: deps.log,
    });
  }

  /** Undefined: that node has no agent. */
  of(node: string): AgentState | undefined {
    const heard = this.#heard.get(`${this.#namespace}/${agentLeaseName(node)}`);
    if (heard === undefined) return undefined;
    if (!this.#watcher.state.following) this.#listeningSince = this.#now();
    return { alive: this.#now() < this.#silentAt(heard), revision: heard.revision };
  }

  /** Whether all Leases were read, or it is known that they cannot be. */
  get synced(): boolean {
    const { synced, problem } = this.#watcher.state;
    return synced || problem?.code === "forbidden" || problem?.code === "not-found";
  }

  get inactiveMs(): number {
    return this.#watcher.state.inactiveMs;
  }

  /** When the next agent falls silent, if none is heard of again. */
  nextSilence(): number | undefined {
    const ends = [...this.#heard.values()].map((heard) => this.#silentAt(heard)).filter((end) => end > this.#now());
    return ends.length === 0 ? undefined : Math.min(...ends);
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
