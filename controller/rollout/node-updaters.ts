import type { PodFacts } from "#lib/workloads/pods.ts";
import type { UpdaterOfPod } from "./pod-updater.ts";

type AskUpdater = (pod: PodFacts) => UpdaterOfPod;

/** Numbers of nodes with pods in mode `live`, by the state of their updater. */
export interface UpdaterCounts {
  readonly alive: number;
  readonly silent: number;
  readonly absent: number;
}

interface Node<W> {
  /** A pod of the node, used to ask for its updater. */
  readonly pod: PodFacts;
  updater: UpdaterOfPod;
  /** `updater` as text, which is equal for equal reports. */
  token: string;
  readonly workloads: Set<W>;
}

/**
 * The updaters of the nodes with pods in mode `live`, and the workloads of these pods. Each updater is asked for only
 * once. If it reports something new, only the pods of its node are affected.
 */
export class NodeUpdaters<W extends { nodes: ReadonlySet<string> }> {
  readonly #updaterOf: AskUpdater;
  readonly #nodes = new Map<string, Node<W>>();

  constructor(updaterOf: AskUpdater) {
    this.#updaterOf = updaterOf;
  }

  /** The updater of a pod, and the updater as text. */
  of(pod: PodFacts): { readonly updater: UpdaterOfPod; readonly token: string } {
    if (pod.node === undefined) return this.#ask(pod);
    let node = this.#nodes.get(pod.node);
    if (node === undefined) {
      node = { pod, ...this.#ask(pod), workloads: new Set() };
      this.#nodes.set(pod.node, node);
    }
    return node;
  }

  /** Sets the nodes on which a workload has pods in mode `live`. */
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

  /** Asks for every updater again. Yields the workloads with pods on nodes whose updater reports something new. */
  *refresh(): Iterable<W> {
    for (const node of this.#nodes.values()) {
      const { updater, token } = this.#ask(node.pod);
      if (token === node.token) continue;
      Object.assign(node, { updater, token });
      yield* node.workloads;
    }
  }

  /** Counts the nodes whose updater is alive, silent or missing. */
  count(): UpdaterCounts {
    const counts = { alive: 0, silent: 0, absent: 0 };
    for (const { updater } of this.#nodes.values()) {
      if (updater === "unknown") continue;
      counts[updater === undefined ? "absent" : updater.alive ? "alive" : "silent"] += 1;
    }
    return counts;
  }

  #ask(pod: PodFacts): { updater: UpdaterOfPod; token: string } {
    const updater = this.#updaterOf(pod);
    return { updater, token: textOf(updater) };
  }
}

/** The updater as text. Spaces separate revisions, because they are hashes without spaces. */
function textOf(updater: UpdaterOfPod): string {
  if (updater === undefined || updater === "unknown") return updater ?? "none";
  return `${updater.alive} ${updater.mapRevision} ${updater.podRevisions?.join(" ")}`;
}
