import type { PodFacts } from "#lib/workloads/pods.ts";
import type { ClusterView } from "./observe-workloads.ts";

type AgentOnNode = ReturnType<ClusterView["agentOf"]>;

/** Nodes on which pods follow live, by what is known of their agent. */
export interface AgentCounts {
  readonly alive: number;
  readonly silent: number;
  readonly absent: number;
}

interface Node<W> {
  /** A pod of the node, to ask for its agent. */
  readonly pod: PodFacts;
  agent: AgentOnNode;
  /** `agent` as text: equal for equal reports. */
  token: string;
  readonly workloads: Set<W>;
}

/**
 * The agents of the nodes on which pods follow live, each asked for once, and the workloads of these pods: an agent
 * that reports something new concerns the pods of its node only.
 */
export class AgentNodes<W extends { nodes: ReadonlySet<string> }> {
  readonly #agentOf: ClusterView["agentOf"];
  readonly #nodes = new Map<string, Node<W>>();

  constructor(agentOf: ClusterView["agentOf"]) {
    this.#agentOf = agentOf;
  }

  /** The agent of a pod and its text. */
  of(pod: PodFacts): { readonly agent: AgentOnNode; readonly token: string } {
    if (pod.node === undefined) return this.#ask(pod);
    let node = this.#nodes.get(pod.node);
    if (node === undefined) {
      node = { pod, ...this.#ask(pod), workloads: new Set() };
      this.#nodes.set(pod.node, node);
    }
    return node;
  }

  /** Sets on which nodes a workload has pods that follow live. */
  place(workload: W, nodes: ReadonlySet<string>): void {
    for (const name of workload.nodes) {
      if (nodes.has(name)) continue;
      const node = this.#nodes.get(name);
      node?.workloads.delete(workload);
      if (node?.workloads.size === 0) this.#nodes.delete(name);
    }
    for (const name of nodes) this.#nodes.get(name)?.workloads.add(workload);
    workload.nodes = nodes;
  }

  /**
   * Asks for every agent again. Returns the workloads with pods on nodes whose agent reports something else than
   * before.
   */
  *refresh(): Iterable<W> {
    for (const node of this.#nodes.values()) {
      const { agent, token } = this.#ask(node.pod);
      if (token === node.token) continue;
      Object.assign(node, { agent, token });
      yield* node.workloads;
    }
  }

  /** How many of these nodes have an agent that is alive, a silent one, or none. */
  count(): AgentCounts {
    const counts = { alive: 0, silent: 0, absent: 0 };
    for (const { agent } of this.#nodes.values()) {
      if (agent === "unknown") continue;
      counts[agent === undefined ? "absent" : agent.alive ? "alive" : "silent"] += 1;
    }
    return counts;
  }

  #ask(pod: PodFacts): { agent: AgentOnNode; token: string } {
    const agent = this.#agentOf(pod);
    return { agent, token: textOf(agent) };
  }
}

/** Revisions are hashes without spaces. */
function textOf(agent: AgentOnNode): string {
  if (agent === undefined || agent === "unknown") return agent ?? "none";
  return `${agent.alive} ${agent.mapRevision} ${agent.podRevisions?.join(" ")}`;
}
