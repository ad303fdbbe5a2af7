import assert from "node:assert/strict";
import type { ObservedWorkload, RestartEvent, RolloutClient } from "#controller/rollout/reconciler.ts";
import { RolloutReconciler } from "#controller/rollout/reconciler.ts";
import type { WebhookFacts } from "#controller/rollout/restart-decision.ts";
import type { History } from "#controller/rollout/restart-history.ts";
import type { RestartRules } from "#controller/rollout/restart-limits.ts";
import type { HostsDiff, StalePod } from "#controller/rollout/workload-facts.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import type { PatchResult } from "#lib/workloads/workload-informers.ts";
import type { WorkloadState } from "#lib/workloads/workload-state.ts";

// A cluster of workloads, a published map and a webhook in memory. The world has its own clock, and tests inject
// faults.

/**
 * `stripped`: another webhook removes our annotations and aliases. `stuck`: a rollout never ends. `owned`: the
 * workload's owner reverts a restart.
 */
export type Temper = "good" | "stripped" | "stuck" | "owned";

/**
 * The fault of the next patch. `lost`: the patch never arrives. `unanswered`: only the answer is lost. `late`: the
 * patch arrives seconds after the timeout.
 */
export type Fault = "conflict" | "lost" | "unanswered" | "late" | "forbidden";

interface Pod {
  /** The names in the pod's hosts file; undefined if the pod was not injected. */
  readonly names: string | undefined;
  readonly stamp: string | undefined;
}

interface Workload {
  readonly key: string;
  readonly temper: Temper;
  generation: number;
  restartedAt: string | undefined;
  pods: readonly Pod[];
  /** When the rollout in progress ends. */
  rolledOutAt: number;
  /** When its owner reverts our restart. */
  revertAt: number | undefined;
  /** A patch in flight. It takes effect only if the workload has not changed since. */
  late: { readonly at: number; readonly stamp: string; readonly generation: number; readonly to: string } | undefined;
}

/** A patch that arrived. `at` is the time of the decision. */
export interface Patch {
  readonly key: string;
  readonly at: number;
  readonly to: string;
  /** Whether the patch arrived some seconds after the decision. */
  readonly late: boolean;
}

const START = 1_700_000_000_000;
const ROLLOUT_MS = 2_000;
const REVERT_MS = 1_500;
const LATE_MS = 6_000;

export const RULES: RestartRules = {
  dryRun: false,
  debounceMs: 2_000,
  maxDebounceMs: 20_000,
  minIntervalMs: 30_000,
  maxIntervalMs: 3_600_000,
  dailyBudget: 6,
  vanishedMs: 600_000,
  revertMs: 300_000,
  rolloutMs: 600_000,
  holdAfter: 3,
  holdMs: 3_600_000,
  updaterMs: 600_000,
};

export class RunningWorld implements RolloutClient {
  readonly workloads = new Map<string, Workload>();
  readonly records = new Map<string, History>();
  readonly patches: Patch[] = [];
  readonly events: RestartEvent[] = [];
  /** Called at each patch, before it changes anything. */
  onPatch: (patch: Patch) => void = () => {};
  fault: Fault | undefined;
  /** The webhook goes down at the next patch, so that the new pods are not injected. */
  webhookDies = false;
  names = "a";
  /** The names that every webhook replica uses and that new pods get. Undefined: the webhook is down. */
  webhook: string | undefined = "a";
  mapSince = START;
  readonly mapChanges: number[] = [];
  clock = START;
  /** How far the wall clock has jumped forward, in milliseconds. */
  jumpedMs = 0;
  rules: RestartRules;
  podReads = 0;
  readonly #observed = new Map<string, { readonly text: string; readonly workload: ObservedWorkload }>();
  #reconciler: RolloutReconciler;
  #leading = new AbortController();

  constructor(rules = RULES) {
    this.rules = rules;
    this.#reconciler = new RolloutReconciler(this, rules, silentLogger);
  }

  add(key: string, temper: Temper = "good", podCount = 1): Workload {
    const workload: Workload = {
      key,
      temper,
      generation: 1,
      restartedAt: undefined,
      pods: [],
      rolledOutAt: 0,
      revertAt: undefined,
      late: undefined,
    };
    workload.pods = Array.from({ length: podCount }, () => this.#newPod(workload));
    this.workloads.set(key, workload);
    return workload;
  }

  /** Publishes a map. The webhooks get it at once, unless `webhookToo` is false. */
  publish(names: string, webhookToo = true): void {
    if (names !== this.names) {
      this.mapSince = this.clock;
      this.mapChanges.push(this.clock);
    }
    this.names = names;
    if (webhookToo && this.webhook !== undefined) this.webhook = names;
  }

  /** Makes another replica the leader, so that the reconciler's memory is lost. */
  changeLeader(rules = this.rules): void {
    this.#leading.abort();
    this.#leading = new AbortController();
    this.rules = rules;
    this.#reconciler = new RolloutReconciler(this, rules, silentLogger);
  }

  /** Advances the clock and runs the reconciler every `everyMs`. */
  async pass(ms: number, everyMs = 500): Promise<void> {
    for (const end = this.clock + ms; this.clock < end; ) {
      this.clock = Math.min(end, this.clock + everyMs);
      this.#advance();
      await this.reconcile();
    }
  }

  async reconcile() {
    return await this.#reconciler.reconcile(this.#leading.signal).catch((error: unknown) => {
      // A test's assertion about a patch is no injected fault, so it fails the test.
      if (error instanceof assert.AssertionError) throw error;
      return undefined;
    });
  }

  async codeOf(key: string): Promise<string | undefined> {
    return (await this.reconcile())?.decisions.get(key)?.code;
  }

  /** Another client changes the workload. Its pods are recreated and its stamp stays, as with `kubectl apply`. */
  edit(key: string): void {
    this.#rollOut(this.#workload(key));
  }

  /** Adds a pod as the webhook would inject it now. */
  scale(key: string): void {
    const workload = this.#workload(key);
    workload.pods = [...workload.pods, this.#newPod(workload)];
  }

  now(): number {
    return this.clock;
  }

  wallClock(): number {
    return this.clock + this.jumpedMs;
  }

  /** An unchanged workload is the same object as before, as in the index of workloads. */
  observe(): readonly ObservedWorkload[] {
    return this.#observe().map((workload) => {
      const text = JSON.stringify(workload);
      const before = this.#observed.get(workload.key);
      if (before?.text === text) return before.workload;
      this.#observed.set(workload.key, { text, workload });
      return workload;
    });
  }

  #observe(): readonly ObservedWorkload[] {
    return [...this.workloads.values()].map((workload) => ({
      key: workload.key,
      namespace: workload.key.split("/")[0] ?? "",
      kind: "Deployment",
      unrestartable: undefined,
      permitted: true,
      state: this.#stateOf(workload),
      mode: "restart",
      updaters: undefined,
      stale: this.#staleOf(workload),
      to: this.names,
    }));
  }

  historyOf(key: string): History {
    return this.records.get(key) ?? [];
  }

  async writeHistory(key: string, history: History): Promise<void> {
    this.records.set(key, history);
  }

  async patch(key: string, stamp: string): Promise<PatchResult> {
    const fault = this.fault;
    this.fault = undefined;
    if (fault === "conflict" || fault === "forbidden") return fault;
    if (fault === "lost") throw new Error("never arrived");
    const workload = this.#workload(key);
    if (fault === "late") {
      workload.late = { at: this.clock + LATE_MS, stamp, generation: workload.generation, to: this.names };
      throw new Error("no answer in time");
    }
    this.#arrive(workload, stamp);
    if (fault === "unanswered") throw new Error("nobody heard");
    return "patched";
  }

  #arrive(workload: Workload, stamp: string, late?: { readonly to: string }): void {
    const { key } = workload;
    const at = Date.parse(stamp);
    const patch = { key, at, to: late?.to ?? this.names, late: late !== undefined };
    this.onPatch(patch);
    this.patches.push(patch);
    workload.restartedAt = stamp;
    this.#rollOut(workload);
    if (workload.temper === "owned") workload.revertAt = this.clock + REVERT_MS;
    if (this.webhookDies) this.webhook = undefined;
    this.webhookDies = false;
  }

  async diffHosts(key: string): Promise<HostsDiff | undefined> {
    this.podReads++;
    return this.#diffOf(this.#workload(key));
  }

  async askWebhooks(): Promise<WebhookFacts> {
    return this.webhook === this.names ? { ok: true, text: "" } : { ok: false, code: "webhook-behind", text: "" };
  }

  report(event: RestartEvent): void {
    this.events.push(event);
  }

  isRollingOut(key: string): boolean {
    return this.#workload(key).rolledOutAt > this.clock;
  }

  /** The different sets of names that a workload's pods have. */
  has(key: string): ReadonlySet<string | undefined> {
    return new Set(this.#workload(key).pods.map(({ names }) => names));
  }

  #advance(): void {
    for (const workload of this.workloads.values()) {
      const { late } = workload;
      if (late !== undefined && late.at <= this.clock) {
        workload.late = undefined;
        if (late.generation === workload.generation) this.#arrive(workload, late.stamp, late);
      }
      if (workload.revertAt !== undefined && workload.revertAt <= this.clock) {
        workload.revertAt = undefined;
        workload.restartedAt = undefined;
        this.#rollOut(workload);
      }
      if (workload.rolledOutAt !== 0 && workload.rolledOutAt <= this.clock) {
        workload.rolledOutAt = 0;
        workload.pods = workload.pods.map(() => this.#newPod(workload));
      }
    }
  }

  #rollOut(workload: Workload): void {
    workload.generation++;
    workload.rolledOutAt = workload.temper === "stuck" ? Number.POSITIVE_INFINITY : this.clock + ROLLOUT_MS;
  }

  #newPod({ temper, restartedAt }: Workload): Pod {
    return { names: temper === "stripped" ? undefined : this.webhook, stamp: restartedAt };
  }

  #stateOf(workload: Workload): WorkloadState {
    return {
      uid: workload.key,
      resourceVersion: String(workload.generation),
      generation: workload.generation,
      restartedAt: workload.restartedAt,
      onChange: undefined,
      refusal: undefined,
      unsettled: workload.rolledOutAt > this.clock ? "0 of 1 available" : undefined,
      failed: false,
    };
  }

  #staleOf({ pods }: Workload): StalePod[] {
    return pods
      .filter(({ names }) => names !== this.names)
      .map(({ names, stamp }) => ({ revision: names, restartedAt: stamp }));
  }

  #diffOf({ pods }: Workload): HostsDiff {
    const wanted = new Set(this.names);
    const had = pods.map(({ names = "" }) => new Set(names));
    return {
      missing: Math.max(0, ...had.map((names) => wanted.difference(names).size)),
      extra: Math.max(0, ...had.map((names) => names.difference(wanted).size)),
    };
  }

  #workload(key: string): Workload {
    const workload = this.workloads.get(key);
    if (workload === undefined) throw new Error(`no workload ${key}`);
    return workload;
  }
}
