import type { Reason } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { PatchResult } from "#lib/workloads/workload-informers.ts";
import { decideRollout, type RolloutStep, type WebhookFacts } from "./restart-decision.ts";
import { type History, pruned, type Restart, stamp } from "./restart-history.ts";
import type { RestartRules } from "./restart-limits.ts";
import { checkWorkload, isHistory } from "./restart-preconditions.ts";
import type { HostsDiff, RolloutDecision, WorkloadFacts } from "./workload-facts.ts";

/** A workload as it was observed, without the reconciler's own memory. */
export type ObservedWorkload = Omit<
  WorkloadFacts,
  "since" | "changingSince" | "staleSince" | "diff" | "notBefore" | "history"
>;

export type RestartEvent =
  | { readonly kind: "restarted"; readonly key: string; readonly restart: Restart }
  | { readonly kind: "conflict" | "forbidden"; readonly key: string }
  | { readonly kind: "outcome"; readonly key: string; readonly outcome: "done" | "failed" | "reverted" };

/** The reconciler's access to the cluster. */
export interface RolloutClient {
  /**
   * Every workload that may have to be restarted, or was restarted, in its state when the promise resolves. If the
   * object is the same as before, nothing has changed. Undefined: not everything is known yet.
   */
  observe(): Promise<readonly ObservedWorkload[] | undefined> | readonly ObservedWorkload[] | undefined;
  historyOf(key: string): History | Reason;
  /** Throws if the write is not confirmed. */
  writeHistory(key: string, history: History): Promise<void>;
  /** Writes the stamp to the pod template. The patch applies only to the observed workload in this version. */
  patch(key: string, stamp: string, resourceVersion: string): Promise<PatchResult>;
  /** Compares the stale pods with new ones; undefined: they are gone, or cannot be read now. */
  diffHosts(key: string): Promise<HostsDiff | undefined>;
  askWebhooks(): Promise<WebhookFacts>;
  report(event: RestartEvent): void;
  /** A monotonic clock, milliseconds. */
  now(): number;
  /** Milliseconds since 1970, for recorded times. */
  wallClock(): number;
}

interface Memory {
  to: string;
  /** Revisions of the stale pods that `diff` was computed for. */
  revisions: string;
  since: number;
  changingSince: number;
  staleSince: number;
  diff: HostsDiff | undefined;
  /** Neither a read of pods nor a patch before this time, because the last one was refused. */
  notBefore: number;
}

/** Maximum number of steps in one run. It prevents an endless loop, and is far above what a run needs. */
const MAX_STEPS = 50;
/** Retry after a refused patch, or after pods could not be read. */
const REFUSED_MS = 30_000;
/** Retry after a conflict: the watch has to deliver the other change first. */
const CONFLICT_MS = 1_000;

function isEmpty(history: History | Reason): boolean {
  return isHistory(history) && history.length === 0;
}

/** Like `checkWorkload`, but reuses the decision on facts without a history until time alone can change it. */
function rememberingCheck(): typeof checkWorkload {
  const known = new WeakMap<WorkloadFacts, { readonly decision: RolloutDecision | undefined }>();
  return (workload, rules, now) => {
    const before = known.get(workload);
    const until = before?.decision?.until ?? Number.POSITIVE_INFINITY;
    if (before !== undefined && now < until) return before.decision;
    const decision = checkWorkload(workload, rules, now);
    if (isEmpty(workload.history)) known.set(workload, { decision });
    return decision;
  };
}

/**
 * Carries out decisions. One run does everything that can be done now. The history keeps what has to survive a change
 * of leader. The memory here may be lost, and then the waits start again.
 */
export class RolloutReconciler {
  readonly #client: RolloutClient;
  readonly #rules: RestartRules;
  readonly #log: Logger;
  readonly #memory = new Map<string, Memory>();
  /** Facts of workloads without a history, with the observation that they were built from. */
  readonly #recalled = new Map<string, { readonly of: ObservedWorkload; readonly facts: WorkloadFacts }>();
  readonly #check = rememberingCheck();

  constructor(client: RolloutClient, rules: RestartRules, log: Logger) {
    this.#client = client;
    this.#rules = rules;
    this.#log = log;
  }

  /**
   * Returns undefined while not everything is known yet. Throws if a record could not be written; then nothing was
   * restarted.
   */
  async reconcile(signal: AbortSignal): Promise<RolloutStep | undefined> {
    let webhooks: WebhookFacts | undefined;
    let step: RolloutStep | undefined;
    for (let steps = 0; steps < MAX_STEPS && !signal.aborted; steps++) {
      const observed = await this.#client.observe();
      if (observed === undefined) return undefined;
      const workloads = this.#recall(observed);
      const input = { now: this.#client.now(), rules: this.#rules, workloads, webhooks };
      step = decideRollout(input, this.#check);
      if (step.askWebhooks) {
        webhooks = await this.#client.askWebhooks();
        continue;
      }
      if (!(await this.#carryOut(step, workloads, signal))) return step;
      webhooks = undefined;
    }
    return step;
  }

  /** Returns whether it did anything. If so, a new decision is needed. */
  async #carryOut(step: RolloutStep, workloads: readonly WorkloadFacts[], signal: AbortSignal): Promise<boolean> {
    const workload = workloads.find(({ key }) => key === step.restart);
    if (step.outcomes.length > 0) await this.#recordOutcomes(step.outcomes);
    else if (step.diffFirst.length > 0) await this.#diffHosts(step.diffFirst);
    else if (workload !== undefined) await this.#restart(workload, signal);
    else return false;
    return true;
  }

  /** Adds the remembered facts of each workload. Forgets workloads without stale pods. */
  #recall(observed: readonly ObservedWorkload[]): WorkloadFacts[] {
    const now = this.#client.now();
    const stale = new Set(observed.flatMap(({ key, stale }) => (stale.length > 0 ? [key] : [])));
    for (const key of this.#memory.keys()) if (!stale.has(key)) this.#memory.delete(key);
    for (const key of this.#recalled.keys()) if (!stale.has(key)) this.#recalled.delete(key);
    return observed.map((workload) => {
      const history = this.#client.historyOf(workload.key);
      const recalled = this.#recalled.get(workload.key);
      // Return the same object, so that unchanged facts are not checked again. Few workloads have a history.
      if (recalled?.of === workload && isEmpty(history)) return recalled.facts;
      if (workload.stale.length > 0) {
        const facts = { ...workload, ...this.#memoryOf(workload, now), history };
        if (isEmpty(history)) this.#recalled.set(workload.key, { of: workload, facts });
        else this.#recalled.delete(workload.key);
        return facts;
      }
      return { ...workload, since: now, changingSince: now, staleSince: now, diff: undefined, notBefore: 0, history };
    });
  }

  /** Call this when the remembered facts of a workload have changed. */
  #forgetFacts(key: string): void {
    this.#recalled.delete(key);
  }

  #memoryOf({ key, to, stale }: ObservedWorkload, now: number): Memory {
    const revisions = [...new Set(stale.map(({ revision = "" }) => revision))].sort().join();
    const fresh = { to, revisions, since: now, changingSince: now, staleSince: now, diff: undefined, notBefore: 0 };
    const memory = this.#memory.get(key) ?? fresh;
    if (memory.to !== to) {
      const quiet = now - memory.since >= this.#rules.debounceMs;
      Object.assign(memory, { to, since: now, ...(quiet ? { changingSince: now } : {}) });
    } else if (memory.revisions === revisions) return this.#keep(key, memory);
    return this.#keep(key, Object.assign(memory, { revisions, diff: undefined }));
  }

  #keep(key: string, memory: Memory): Memory {
    this.#memory.set(key, memory);
    return memory;
  }

  async #diffHosts(keys: readonly string[]): Promise<void> {
    await Promise.all(
      keys.map(async (key) => {
        const diff = await this.#client.diffHosts(key).catch((error: unknown) => {
          this.#log.warn({ workload: key }, `stale pods could not be read: ${describeError(error)}`);
          return undefined;
        });
        const memory = this.#memory.get(key);
        if (memory === undefined) return;
        this.#forgetFacts(key);
        memory.diff = diff;
        if (diff === undefined) memory.notBefore = this.#client.now() + REFUSED_MS;
      }),
    );
  }

  async #recordOutcomes(outcomes: RolloutStep["outcomes"]): Promise<void> {
    for (const { key, outcome } of outcomes) {
      const history = this.#client.historyOf(key);
      const last = isHistory(history) ? history.at(-1) : undefined;
      if (!isHistory(history) || last === undefined) continue;
      const before = history.slice(0, -1);
      await this.#client.writeHistory(key, outcome === "void" ? before : [...before, { ...last, outcome }]);
      if (outcome !== "void") this.#client.report({ kind: "outcome", key, outcome });
    }
  }

  /** Writes the record first, then patches. After a crash in between, `outcomeOf` finds that nothing was restarted. */
  async #restart(workload: WorkloadFacts, signal: AbortSignal): Promise<void> {
    const { key, state, history, to } = workload;
    if (typeof state === "string" || !isHistory(history)) return;
    const [at, begun] = [this.#client.wallClock(), this.#client.now()];
    const from = [...new Set(workload.stale.map(({ revision }) => revision ?? ""))].sort();
    const restart: Restart = { at, begun, from, to, uid: state.uid, generation: state.generation };
    const before = pruned(history, begun);
    await this.#client.writeHistory(key, [...before, restart]);
    if (signal.aborted) return;
    const memory = this.#memory.get(key);
    this.#forgetFacts(key);
    // If the patch throws, the next run tries the other workloads first.
    if (memory !== undefined) memory.notBefore = begun + REFUSED_MS;
    // Use the version from before the record. By now, the watch of a suspended leader may have received a newer one.
    const patched = await this.#client.patch(key, stamp(at), state.resourceVersion);
    if (patched === "patched") {
      if (memory !== undefined) memory.notBefore = 0;
      this.#client.report({ kind: "restarted", key, restart });
      return;
    }
    await this.#client.writeHistory(key, before);
    if (patched !== "gone") this.#client.report({ kind: patched, key });
    if (memory !== undefined) memory.notBefore = begun + (patched === "forbidden" ? REFUSED_MS : CONFLICT_MS);
  }
}
