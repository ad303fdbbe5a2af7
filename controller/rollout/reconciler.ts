import { describeError } from "../../errors/errors.ts";
import type { Reason } from "../../hostmap/types.ts";
import type { Logger } from "../../telemetry/log.ts";
import type { PatchResult } from "../../workloads/workload-informers.ts";
import { isHistory } from "./restart-checks.ts";
import { decideRollout, type RolloutDecision, type WebhookFacts } from "./restart-decision.ts";
import { type History, pruned, type Restart, stamp } from "./restart-history.ts";
import type { RestartRules } from "./restart-rules.ts";
import type { HostsDiff, WorkloadFacts } from "./workload-facts.ts";

/** A workload as it is observed; the engine adds what it remembers. */
export type ObservedWorkload = Omit<
  WorkloadFacts,
  "since" | "changingSince" | "staleSince" | "diff" | "notBefore" | "history"
>;

export type RestartEvent =
  | { readonly kind: "restarted"; readonly key: string; readonly restart: Restart }
  | { readonly kind: "conflict" | "forbidden"; readonly key: string }
  | { readonly kind: "outcome"; readonly key: string; readonly outcome: "done" | "failed" | "reverted" };

/** The world as the engine reaches it; tests have one of their own. */
export interface RolloutClient {
  /** Every workload with opted-in pods or an unfinished restart, as of now. Undefined: not everything is known yet. */
  observe(): readonly ObservedWorkload[] | undefined;
  historyOf(key: string): History | Reason;
  /** Throws when it is not certain that it was written. */
  writeHistory(key: string, history: History): Promise<void>;
  /** Writes the stamp on the pod template, of exactly the workload that was observed. */
  patch(key: string, stamp: string): Promise<PatchResult>;
  /** What the stale pods lack; undefined: they are gone, or cannot be read now. */
  diffHosts(key: string): Promise<HostsDiff | undefined>;
  askWebhooks(): Promise<WebhookFacts>;
  report(what: RestartEvent): void;
  now(): number;
}

interface Memory {
  to: string;
  /** Those of the stale pods that `diff` is about. */
  revisions: string;
  since: number;
  changingSince: number;
  staleSince: number;
  diff: HostsDiff | undefined;
  /** No look and no patch before this: the last one was refused. */
  notBefore: number;
}

/** Steps of one turn: a bound against going round in circles, far above what a turn takes. */
const MOST_STEPS = 50;
/** After a refusal, and after pods that could not be read. */
const REFUSED_MS = 30_000;
/** After somebody else's change, which the watch has to tell of first. */
const CONFLICT_MS = 1_000;

/**
 * Carries decisions out: one turn brings everything as far as it can be brought now. What has to survive a change of leader is in
 * `remember`; what is kept here may be lost, and then waits begin anew.
 */
export class RolloutReconciler {
  readonly #ports: RolloutClient;
  readonly #rules: RestartRules;
  readonly #log: Logger;
  readonly #memory = new Map<string, Memory>();

  constructor(ports: RolloutClient, rules: RestartRules, log: Logger) {
    this.#ports = ports;
    this.#rules = rules;
    this.#log = log;
  }

  /** Undefined: not everything is known yet. Throws when a record could not be written: then nothing was restarted. */
  async turn(signal: AbortSignal): Promise<RolloutDecision | undefined> {
    let webhooks: WebhookFacts | undefined;
    let decision: RolloutDecision | undefined;
    for (let steps = 0; steps < MOST_STEPS && !signal.aborted; steps++) {
      const observed = this.#ports.observe();
      if (observed === undefined) return undefined;
      const workloads = this.#recall(observed);
      decision = decideRollout({ now: this.#ports.now(), rules: this.#rules, workloads, webhooks });
      if (decision.askWebhooks) {
        webhooks = await this.#ports.askWebhooks();
        continue;
      }
      if (!(await this.#carryOut(decision, workloads, signal))) return decision;
      webhooks = undefined;
    }
    return decision;
  }

  /** Whether anything was done, so that there is something new to decide on. */
  async #carryOut(
    decision: RolloutDecision,
    workloads: readonly WorkloadFacts[],
    signal: AbortSignal,
  ): Promise<boolean> {
    const workload = workloads.find(({ key }) => key === decision.restart);
    if (decision.outcomes.length > 0) await this.#settle(decision.outcomes);
    else if (decision.diffFirst.length > 0) await this.#look(decision.diffFirst);
    else if (workload !== undefined) await this.#restart(workload, signal);
    else return false;
    return true;
  }

  /** Since when names are what they are; a workload without stale pods is forgotten. */
  #recall(observed: readonly ObservedWorkload[]): WorkloadFacts[] {
    const now = this.#ports.now();
    const stale = new Set(observed.flatMap(({ key, stale }) => (stale.length > 0 ? [key] : [])));
    for (const key of this.#memory.keys()) if (!stale.has(key)) this.#memory.delete(key);
    return observed.map((workload) => {
      const history = this.#ports.historyOf(workload.key);
      if (workload.stale.length > 0) return { ...workload, ...this.#memoryOf(workload, now), history };
      return { ...workload, since: now, changingSince: now, staleSince: now, diff: undefined, notBefore: 0, history };
    });
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

  async #look(keys: readonly string[]): Promise<void> {
    await Promise.all(
      keys.map(async (key) => {
        const diff = await this.#ports.diffHosts(key).catch((error: unknown) => {
          this.#log.warn({ workload: key }, `stale pods could not be read: ${describeError(error)}`);
          return undefined;
        });
        const memory = this.#memory.get(key);
        if (memory === undefined) return;
        memory.diff = diff;
        if (diff === undefined) memory.notBefore = this.#ports.now() + REFUSED_MS;
      }),
    );
  }

  async #settle(outcomes: RolloutDecision["outcomes"]): Promise<void> {
    for (const { key, outcome } of outcomes) {
      const history = this.#ports.historyOf(key);
      const last = isHistory(history) ? history.at(-1) : undefined;
      if (!isHistory(history) || last === undefined) continue;
      const before = history.slice(0, -1);
      await this.#ports.writeHistory(key, outcome === "void" ? before : [...before, { ...last, outcome }]);
      if (outcome !== "void") this.#ports.report({ kind: "outcome", key, outcome });
    }
  }

  /** Remembered first, then done: what crashes in between has not happened, and `outcomeOf` sees that. */
  async #restart(workload: WorkloadFacts, signal: AbortSignal): Promise<void> {
    const { key, state, history, to } = workload;
    if (typeof state === "string" || !isHistory(history)) return;
    const at = this.#ports.now();
    const from = [...new Set(workload.stale.map(({ revision }) => revision ?? ""))].sort();
    const restart: Restart = { at, from, to, uid: state.uid, generation: state.generation };
    const before = pruned(history, at);
    await this.#ports.writeHistory(key, [...before, restart]);
    if (signal.aborted) return;
    const patched = await this.#ports.patch(key, stamp(at));
    if (patched === "patched") {
      this.#ports.report({ kind: "restarted", key, restart });
      return;
    }
    await this.#ports.writeHistory(key, before);
    if (patched !== "gone") this.#ports.report({ kind: patched, key });
    const memory = this.#memory.get(key);
    if (memory !== undefined) memory.notBefore = at + (patched === "forbidden" ? REFUSED_MS : CONFLICT_MS);
  }
}
