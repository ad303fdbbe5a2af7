import { REVISION_KEY } from "#hostmap/metadata-keys.ts";
import type { Reason } from "#hostmap/types.ts";
import { describeError, statusOf } from "#lib/errors/errors.ts";
import { createBackoff } from "#lib/kube/backoff.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { microTime } from "#lib/kube/lease-record.ts";
import { type ReconcileResult, Reconciler } from "#lib/kube/reconciler.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import {
  AGENT_LEASE_LABELS,
  agentLeaseName,
  agentLeasePath,
  renderPodRevisions,
  withFormat,
} from "./agent-lease-format.ts";
import { NODE_HOSTS_KEY, POD_REVISIONS_KEY, PROBLEM_KEY } from "./metadata-keys.ts";
import { type NodeHostsReport, renderNodeHostsReport } from "./node-hosts-report.ts";

/** What the Lease says beside that the agent lives. */
interface AgentReport {
  /** The map revision that every pod has; undefined: some have not. What was said before then stays. */
  readonly applied: string | undefined;
  /**
   * The pod revisions that every pod with that selection has; undefined: not known. What was said before then stays.
   */
  readonly podRevisions: readonly string[] | undefined;
  readonly problems: ReadonlyArray<{ readonly pod: string; readonly reason: Reason }>;
  /** What the node's hosts file has; undefined: no names are chosen for it. */
  readonly nodeHosts?: NodeHostsReport | undefined;
}

interface AgentLeaseDeps {
  readonly client: Pick<KubeClient, "apply" | "delete">;
  readonly namespace: string;
  readonly node: string;
  /** Name of the agent's pod. */
  readonly identity: string;
  readonly renewMs: number;
  /** The time over which the agents of all nodes spread their writes after a change of the map, milliseconds. */
  readonly spreadMs: () => number;
  readonly random: () => number;
  /** uid of our DaemonSet, once it is known: the Lease goes with it. */
  readonly daemonSet: () => { readonly name: string; readonly uid: string } | undefined;
  readonly log: Logger;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** Least time between two writes. */
const PACE_MS = 1_000;
const RETRY_MS = 5_000;
/** Problems that are named one by one. */
const MAX_PROBLEMS = 3;

/**
 * A renewal comes up to this share of the interval early, so that agents that started together do not renew together.
 */
const JITTER = 0.25;

/**
 * Renews the Lease that reports to the controller that an agent serves the node, and what its pods have. A change
 * of the map that concerns no pod of the node writes nothing; one that does is written within `spreadMs`, since the
 * pods have their names by then and only the controller's status waits.
 */
export class AgentLeaseWriter {
  readonly #deps: AgentLeaseDeps;
  readonly #name: string;
  readonly #path: string;
  #wanted: Record<string, string> = {};
  /** The annotations of the Lease as they were last written; undefined: not known. */
  #said: Record<string, string> | undefined;
  #lastAt = Number.NEGATIVE_INFINITY;
  readonly #reconciler: Reconciler;
  /** Writes and deletions, one after the other. */
  #queue: Promise<unknown> = Promise.resolve();
  #failing = false;
  /** Whether there is to be a Lease: not from when it is removed until there is something to report again. */
  #present = false;

  constructor(deps: AgentLeaseDeps) {
    this.#deps = deps;
    this.#name = agentLeaseName(deps.node);
    this.#path = agentLeasePath(deps.namespace, this.#name);
    this.#reconciler = new Reconciler({
      reconcile: () => this.#enqueue(() => this.#write()),
      retry: {
        backoff: createBackoff(RETRY_MS, RETRY_MS, deps.random),
        onError: (error) => this.#failed(error),
        hold: true,
      },
      pauseMs: () => this.#untilNext,
    });
  }

  /** Writes soon if this differs from what was written, and at every renewal. */
  report({ applied, podRevisions, problems, nodeHosts }: AgentReport): void {
    const revision = applied ?? this.#wanted[REVISION_KEY];
    const list = podRevisions === undefined ? this.#wanted[POD_REVISIONS_KEY] : renderPodRevisions(podRevisions);
    this.#wanted = {
      ...(revision === undefined ? {} : { [REVISION_KEY]: revision }),
      ...(list === undefined ? {} : { [POD_REVISIONS_KEY]: list }),
      ...(problems.length === 0 ? {} : { [PROBLEM_KEY]: describe(problems) }),
      ...(nodeHosts === undefined ? {} : { [NODE_HOSTS_KEY]: renderNodeHostsReport(nodeHosts) }),
    };
    this.#present = true;
    // The first write does not wait: an uninstall looks for the Leases of nodes whose files have blocks.
    if (this.#isBehind) this.#reconciler.enqueue(this.#said === undefined ? 0 : this.#spread());
  }

  /** Deletes the Lease: nothing of ours is on the node any more. A later report creates it again. */
  async remove(): Promise<void> {
    this.#present = false;
    this.#said = undefined;
    await this.#enqueue(() => this.#delete());
  }

  /** Writes no more; the Lease stays. */
  stop(): void {
    this.#present = false;
    void this.#reconciler.stop();
  }

  get #isBehind(): boolean {
    return this.#said === undefined || promptPart(this.#wanted) !== promptPart(this.#said);
  }

  get #untilNext(): number {
    const pace = Math.max(PACE_MS, this.#deps.spreadMs());
    return Math.max(0, Math.min(pace, this.#lastAt + pace - this.#deps.now()));
  }

  #spread(): number {
    return this.#deps.random() * this.#deps.spreadMs();
  }

  #enqueue<T>(task: () => Promise<T>): Promise<T> {
    const done = this.#queue.then(task);
    this.#queue = done.catch(() => {});
    return done;
  }

  async #write(): Promise<ReconcileResult | undefined> {
    const { client, log, now, random, renewMs } = this.#deps;
    if (!this.#present) return undefined;
    const annotations = this.#wanted;
    this.#lastAt = now();
    await client.apply(this.#path, this.#lease(annotations), { fieldManager: "switchback-agent", force: true });
    this.#said = annotations;
    if (this.#failing) log.info({ lease: this.#name }, "lease: renewed again");
    this.#failing = false;
    return { requeueAfter: this.#isBehind ? 0 : renewMs * (1 - JITTER * random()) };
  }

  #failed(error: unknown): void {
    if (!this.#failing) this.#deps.log.warn({ lease: this.#name, error: describeError(error) }, "lease: not renewed");
    this.#failing = true;
  }

  async #delete(): Promise<void> {
    if (this.#failing) this.#reconciler.forget();
    this.#failing = false;
    this.#said = undefined;
    try {
      await this.#deps.client.delete(this.#path);
    } catch (error) {
      if (statusOf(error) !== 404) throw error;
    }
  }

  #lease(annotations: Record<string, string>): object {
    const { namespace, identity, renewMs, now } = this.#deps;
    const owner = this.#deps.daemonSet();
    return {
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: {
        name: this.#name,
        namespace,
        labels: AGENT_LEASE_LABELS,
        annotations: withFormat(annotations),
        ...(owner && { ownerReferences: [{ apiVersion: "apps/v1", kind: "DaemonSet", ...owner }] }),
      },
      spec: {
        holderIdentity: identity,
        leaseDurationSeconds: Math.ceil((renewMs * 2) / 1000),
        renewTime: microTime(now()),
      },
    };
  }
}

/** The part of the annotations whose change is written before the next renewal. */
function promptPart(annotations: Readonly<Record<string, string>>): string {
  const { [REVISION_KEY]: _, ...rest } = annotations;
  return JSON.stringify(POD_REVISIONS_KEY in rest ? rest : annotations);
}

function describe(problems: AgentReport["problems"]): string {
  const named = problems.slice(0, MAX_PROBLEMS).map(({ pod, reason }) => `${pod}: ${reason.code}`);
  const rest = problems.length - named.length;
  return rest > 0 ? `${named.join(", ")}, ${rest} more` : named.join(", ");
}
