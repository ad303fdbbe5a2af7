import { describeError, statusOf } from "../errors/errors.ts";
import { PROBLEM_KEY, REVISION_KEY } from "../hostmap/metadata-keys.ts";
import type { Reason } from "../hostmap/types.ts";
import type { KubeClient } from "../kube/client.ts";
import { microTime } from "../kube/lease-record.ts";
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
/** Problems that are told one by one. */
const MAX_PROBLEMS = 3;

/** Keeps the Lease by which the controller knows that the node's pods are looked after, and how far they have come. */
export class AgentLeaseWriter {
  readonly #deps: AgentLeaseDeps;
  readonly #name: string;
  readonly #path: string;
  #wanted: Record<string, string> = {};
  /** What stands in the Lease, as far as we know. */
  #said: string | undefined;
  #lastAt = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();
  #failing = false;
  /** Whether there is to be a Lease: not from when it is removed until there is something to report again. */
  #present = false;
  #stopped = false;

  constructor(deps: AgentLeaseDeps) {
    this.#deps = deps;
    this.#name = agentLeaseName(deps.node);
    this.#path = agentLeasePath(deps.namespace, this.#name);
  }

  /** Writes soon if this differs from what was written, and at every renewal. */
  report({ applied, problems }: AgentReport): void {
    const revision = applied ?? this.#wanted[REVISION_KEY];
    this.#wanted = {
      ...(revision === undefined ? {} : { [REVISION_KEY]: revision }),
      ...(problems.length === 0 ? {} : { [PROBLEM_KEY]: describe(problems) }),
    };
    this.#present = true;
    if (!this.#failing && this.#isBehind) this.#schedule(this.#untilNext);
  }

  /** Deletes the Lease: nothing of ours is on the node any more. A later report makes it anew. */
  async remove(): Promise<void> {
    this.#present = false;
    const removed = this.#writing.then(() => this.#delete());
    this.#writing = removed.catch(() => {});
    await removed;
  }

  /** Writes no more; the Lease stays. */
  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  get #isBehind(): boolean {
    return JSON.stringify(this.#wanted) !== this.#said;
  }

  get #untilNext(): number {
    return Math.max(0, this.#lastAt + PACE_MS - this.#deps.now());
  }

  #schedule(delayMs: number): void {
    clearTimeout(this.#timer);
    if (this.#stopped) return;
    this.#timer = setTimeout(() => {
      this.#writing = this.#writing.then(() => this.#write());
    }, delayMs);
  }

  async #write(): Promise<void> {
    const { client, log, now, renewMs } = this.#deps;
    if (this.#stopped || !this.#present) return;
    const annotations = this.#wanted;
    this.#lastAt = now();
    try {
      await client.apply(this.#path, this.#lease(annotations), { fieldManager: "switchback-agent", force: true });
      this.#said = JSON.stringify(annotations);
      if (this.#failing) log.info({ lease: this.#name }, "lease: renewed again");
      this.#failing = false;
    } catch (error) {
      if (!this.#failing) log.warn({ lease: this.#name, error: describeError(error) }, "lease: not renewed");
      this.#failing = true;
    }
    if (this.#failing) this.#schedule(RETRY_MS);
    else this.#schedule(this.#isBehind ? this.#untilNext : renewMs);
  }

  async #delete(): Promise<void> {
    clearTimeout(this.#timer);
    this.#said = undefined;
    this.#failing = false;
    try {
      await this.#deps.client.delete(this.#path);
    } catch (error) {
      if (statusOf(error) !== 404) throw error;
    } finally {
      // Reported again meanwhile: what was written before the deletion would be gone.
      if (this.#present) this.#schedule(this.#untilNext);
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
  const told = problems.slice(0, MAX_PROBLEMS).map(({ pod, reason }) => `${pod}: ${reason.code}`);
  const rest = problems.length - told.length;
  return rest > 0 ? `${told.join(", ")}, ${rest} more` : told.join(", ");
}
