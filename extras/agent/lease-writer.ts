import { REVISION_KEY } from "#hostmap/metadata-keys.ts";
import type { Reason } from "#hostmap/types.ts";
import { describeError, statusOf } from "#lib/errors/errors.ts";
import { createBackoff } from "#lib/kube/backoff.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { microTime } from "#lib/kube/lease.ts";
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

/** Content of the Lease, in addition to its renewal. */
interface AgentReport {
  /** Map revision that every pod has. Undefined if some pods do not have it: the Lease then keeps its last value. */
  readonly applied: string | undefined;
  /**
   * Pod revisions that every pod with that selection has. Undefined if not known: the Lease then keeps its last list.
   */
  readonly podRevisions: readonly string[] | undefined;
  readonly problems: ReadonlyArray<{ readonly pod: string; readonly reason: Reason }>;
  /** Report about the node's hosts file. Undefined if no names are chosen for it. */
  readonly nodeHosts?: NodeHostsReport | undefined;
}

interface AgentLeaseDeps {
  readonly client: Pick<KubeClient, "apply" | "delete">;
  readonly namespace: string;
  readonly node: string;
  /** Name of the agent's pod. */
  readonly identity: string;
  readonly renewMs: number;
  /** Time over which all agents spread their writes after a change of the map, in milliseconds. */
  readonly spreadMs: () => number;
  readonly random: () => number;
  /** Our DaemonSet, once it is known. It owns the Lease, so the Lease is deleted with it. */
  readonly daemonSet: () => { readonly name: string; readonly uid: string } | undefined;
  readonly log: Logger;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** Minimum time between two writes, in milliseconds. */
const PACE_MS = 1_000;
const RETRY_MS = 5_000;
/** Maximum number of problems that the Lease names. */
const MAX_PROBLEMS = 3;

/**
 * Maximum share of the interval by which a renewal comes early. Agents that started together then do not renew
 * together.
 */
const JITTER = 0.25;

/**
 * Renews the Lease, which tells the controller that an agent serves the node, and which revisions its pods have. If a
 * change of the map concerns no pod of the node, it is written only at the next renewal. Any other change is written
 * within `spreadMs`. It can wait, because the pods already have their names: only the controller's status is late.
 */
export class AgentLeaseWriter {
  readonly #deps: AgentLeaseDeps;
  readonly #name: string;
  readonly #path: string;
  #wanted: Record<string, string> = {};
  /** The annotations that were last written to the Lease. Undefined if not known. */
  #said: Record<string, string> | undefined;
  #lastAt = Number.NEGATIVE_INFINITY;
  readonly #reconciler: Reconciler;
  /** Runs writes and deletions one after the other. */
  #queue: Promise<unknown> = Promise.resolve();
  #failing = false;
  /** Whether the Lease should exist: from a report until `remove` or `stop`. */
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

  /** Sets the content of the Lease. Writes it soon if its `promptPart` has changed, else at the next renewal. */
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
    // The first write does not wait, because an uninstall finds the nodes whose files have blocks by their Leases.
    if (this.#isBehind) this.#reconciler.enqueue(this.#said === undefined ? 0 : this.#spread());
  }

  /** Deletes the Lease, because the node has nothing of ours any more. A later report creates it again. */
  async remove(): Promise<void> {
    this.#present = false;
    this.#said = undefined;
    await this.#enqueue(() => this.#delete());
  }

  /** Stops writing. The Lease stays. */
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
