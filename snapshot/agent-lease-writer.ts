import { describeError, statusOf } from "../errors/errors.ts";
import { PROBLEM_KEY, REVISION_KEY } from "../hostmap/metadata-keys.ts";
import type { Reason } from "../hostmap/types.ts";
import { createBackoff } from "../kube/backoff.ts";
import type { KubeClient } from "../kube/client.ts";
import { microTime } from "../kube/lease-record.ts";
import { type ReconcileResult, Reconciler } from "../kube/reconciler.ts";
import type { Logger } from "../telemetry/log.ts";
import { AGENT_LEASE_LABELS, agentLeaseName, agentLeasePath, withFormat } from "./agent-lease-format.ts";

/** What the Lease says beside that the agent lives. */
interface AgentReport {
  /** The revision that every pod has; undefined: some have not. What was said before then stays. */
  readonly applied: string | undefined;
  readonly problems: ReadonlyArray<{ readonly pod: string; readonly reason: Reason }>;
}

interface AgentLeaseDeps {
  readonly client: Pick<KubeClient, "apply" | "delete">;
  readonly namespace: string;
  readonly node: string;
  /** Name of the agent's pod. */
  readonly identity: string;
  readonly renewMs: number;
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

/** Renews the Lease that reports to the controller that an agent serves the node, and which map its pods have. */
export class AgentLeaseWriter {
  readonly #deps: AgentLeaseDeps;
  readonly #name: string;
  readonly #path: string;
  #wanted: Record<string, string> = {};
  /** The annotations of the Lease as they were last written; undefined: not known. */
  #said: string | undefined;
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
        backoff: createBackoff(RETRY_MS, RETRY_MS),
        onError: (error) => this.#failed(error),
        hold: true,
      },
      pauseMs: () => this.#untilNext,
    });
  }

  /** Writes soon if this differs from what was written, and at every renewal. */
  report({ applied, problems }: AgentReport): void {
    const revision = applied ?? this.#wanted[REVISION_KEY];
    this.#wanted = {
      ...(revision === undefined ? {} : { [REVISION_KEY]: revision }),
      ...(problems.length === 0 ? {} : { [PROBLEM_KEY]: describe(problems) }),
    };
    this.#present = true;
    if (this.#isBehind) this.#reconciler.enqueue();
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
    return JSON.stringify(this.#wanted) !== this.#said;
  }

  get #untilNext(): number {
    return Math.max(0, Math.min(PACE_MS, this.#lastAt + PACE_MS - this.#deps.now()));
  }

  #enqueue<T>(task: () => Promise<T>): Promise<T> {
    const done = this.#queue.then(task);
    this.#queue = done.catch(() => {});
    return done;
  }

  async #write(): Promise<ReconcileResult | undefined> {
    const { client, log, now, renewMs } = this.#deps;
    if (!this.#present) return undefined;
    const annotations = this.#wanted;
    this.#lastAt = now();
    await client.apply(this.#path, this.#lease(annotations), { fieldManager: "switchback-agent", force: true });
    this.#said = JSON.stringify(annotations);
    if (this.#failing) log.info({ lease: this.#name }, "lease: renewed again");
    this.#failing = false;
    return { requeueAfter: this.#isBehind ? 0 : renewMs };
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

function describe(problems: AgentReport["problems"]): string {
  const named = problems.slice(0, MAX_PROBLEMS).map(({ pod, reason }) => `${pod}: ${reason.code}`);
  const rest = problems.length - named.length;
  return rest > 0 ? `${named.join(", ")}, ${rest} more` : named.join(", ");
}
