import type { Reason } from "#hostmap/types.ts";
import type { Config } from "#lib/config/schema.ts";
import { describeError } from "#lib/errors/errors.ts";
import { createBackoff } from "#lib/kube/backoff.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { EventRecorder } from "#lib/kube/events.ts";
import { corePath } from "#lib/kube/paths.ts";
import { type ReconcileResult, Reconciler } from "#lib/kube/reconciler.ts";
import { startPromptTimer } from "#lib/kube/time.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { NOT_OBSERVED } from "#lib/workloads/pod-observer.ts";
import type { RawPod } from "#lib/workloads/pods.ts";
import type { Decisions } from "./cohorts.ts";
import { EventReporter, type RestartCounters } from "./event-reporter.ts";
import type { RolloutMetricsInput } from "./metrics.ts";
import { ObservedCluster } from "./observed-cluster.ts";
import type { PodUpdater } from "./pod-updater.ts";
import { type ObservedWorkload, type RolloutClient, RolloutReconciler } from "./reconciler.ts";
import type { RolloutStep } from "./restart-decision.ts";
import { begunAt } from "./restart-history.ts";
import { type RestartRules, restartRules } from "./restart-limits.ts";
import { RestartRecords } from "./restart-records.ts";
import { type RolloutStatus, rolloutStatus, selectKeys, type WorkloadQuery } from "./rollout-status.ts";
import { WebhookReplicas } from "./webhook-replicas.ts";
import type { HostsDiff } from "./workload-facts.ts";

export interface RolloutDeps {
  readonly client: KubeClient;
  readonly config: Pick<Config, "namespace" | "restart" | "pods" | "optIn" | "inject">;
  /** They update running pods without a restart. */
  readonly updaters: readonly PodUpdater[];
  readonly log: Logger;
  readonly events: Pick<EventRecorder, "record">;
  readonly counters: RestartCounters;
  /** A monotonic clock, milliseconds. */
  readonly now: () => number;
  /** Milliseconds since 1970, for recorded times. */
  readonly wallClock: () => number;
}

/** Changes that arrive together are reconciled together. */
const SETTLE_MS = 100;
/** Delay before a failed run is retried. */
const RETRY_MS = 5_000;
/** Resync interval, to detect updaters that stop reporting. */
const RESYNC_MS = 15_000;
/** Maximum number of stuck workloads that are reported individually. The status and the metrics include all of them. */
const MAX_REPORTED = 500;

/** Restarts the workloads of stale pods: the leader's work for one term, until `signal` aborts. */
export class RolloutController {
  readonly #deps: RolloutDeps;
  readonly #signal: AbortSignal;
  readonly #rules: RestartRules;
  readonly #cluster: ObservedCluster;
  readonly #replicas: WebhookReplicas;
  readonly #events: EventReporter;
  readonly #rollout: RolloutReconciler;
  readonly #reconciler: Reconciler;
  /** Reads the records. Until then nothing is decided. */
  readonly #recordsReader: Reconciler;
  readonly #ended = Promise.withResolvers<void>();
  /** Undefined until the records are read. */
  #records: RestartRecords | undefined;
  #step: RolloutStep | undefined;
  /** When to check for silent updaters, milliseconds since 1970. */
  #checkUpdatersAt = 0;

  constructor(deps: RolloutDeps, signal: AbortSignal) {
    const { client, config, log, updaters, now, wallClock } = deps;
    this.#deps = deps;
    this.#signal = signal;
    this.#rules = restartRules(config);
    this.#cluster = new ObservedCluster({ client, config, log, updaters, rules: this.#rules, now });
    this.#replicas = new WebhookReplicas({ client, log, namespace: config.namespace });
    this.#events = new EventReporter(deps);
    const rolloutClient: RolloutClient = {
      observe: () => this.#observe(),
      historyOf: (key) => this.#historyOf(key),
      writeHistory: async (key, history) => await this.#records?.put(key, history, signal),
      patch: (key, stamp, resourceVersion) => this.#cluster.workloads.patch(key, { stamp, resourceVersion, signal }),
      diffHosts: (key) => this.#diffHosts(key),
      askWebhooks: () => this.#askWebhooks(),
      report: (event) => this.#events.reportEvent(event, this.#cluster.index.groupOf(event.key)),
      now,
      wallClock,
    };
    this.#rollout = new RolloutReconciler(rolloutClient, this.#rules, log);
    const retrying = (code: string) => ({
      backoff: createBackoff(RETRY_MS, RETRY_MS),
      onError: (error: unknown) => {
        if (!signal.aborted) log.warn({ code }, describeError(error));
      },
    });
    this.#reconciler = new Reconciler({ reconcile: () => this.#reconcile(), retry: retrying("restart-turn-failed") });
    this.#recordsReader = new Reconciler({
      reconcile: () => this.#open(),
      retry: retrying("restarts-not-read"),
      startTimer: startPromptTimer,
    });
    this.#cluster.start(() => this.#reconciler.enqueue(SETTLE_MS));
    signal.addEventListener("abort", () => void this.#end(), { once: true });
    if (signal.aborted) void this.#end();
    else this.#recordsReader.enqueue();
  }

  /** Resolves when the run in progress and every watch have ended. */
  get done(): Promise<void> {
    return this.#ended.promise;
  }

  /** How many processes read the map for running pods. */
  get mapReaders(): number {
    return this.#cluster.mapReaders;
  }

  /** The longest time, in milliseconds, since a watch last received or tried anything. */
  get inactiveMs(): number {
    return Math.max(this.#cluster.inactiveMs, this.#replicas.inactiveMs);
  }

  /**
   * Call this when somebody requests the status. If no other feature observes the pods, they are observed for some
   * minutes.
   */
  requestObservation(): void {
    this.#cluster.pods.request();
  }

  /** The status, with the workloads that a query selects. */
  status(query: WorkloadQuery = {}): RolloutStatus {
    const { config, now } = this.#deps;
    const restarts = [...(this.#records?.all() ?? [])].flatMap(({ restarts: list }) => list.map(begunAt));
    const { namespace } = query;
    const isWanted = (key: string) => namespace === undefined || key.startsWith(`${namespace}/`);
    const { keys, omitted, next } = selectKeys(this.#cluster.index.byUrgency(this.#decisions, isWanted), query);
    return rolloutStatus({
      unknown: this.#unknown(),
      notice: this.#cluster.pods.notice,
      dryRun: config.restart.dryRun,
      underWay: this.#underWay,
      counts: this.#cluster.index.counts(this.#decisions),
      selected: this.#cluster.index.summariesOf(keys),
      omitted,
      next,
      decisionOf: (key) => this.#cluster.index.decisionOf(key, this.#decisions),
      historyOf: (key) => this.#historyOf(key),
      restarts,
      now: now(),
    });
  }

  /** The counts of opted-in workloads and pods; undefined: not known. */
  counts(): RolloutMetricsInput | undefined {
    if (this.#unknown() !== undefined) return undefined;
    const { index, pods } = this.#cluster;
    const updaters = this.#deps.updaters.length > 0 ? index.updaters : undefined;
    return { ...index.counts(this.#decisions), shed: pods.shedPods, updaters };
  }

  /** The workload that is being restarted, unless it has come into step since the last decision. */
  get #underWay(): string | undefined {
    const decided = [...(this.#step?.decisions ?? [])].find(([, { code }]) => code === "restarting")?.[0];
    const isStill =
      decided !== undefined && this.#cluster.index.decisionOf(decided, this.#decisions)?.code === "restarting";
    return isStill ? decided : undefined;
  }

  /** Decisions about the workloads that are decided individually. */
  get #decisions(): Decisions {
    return this.#step?.decisions ?? new Map();
  }

  async #observe(): Promise<readonly ObservedWorkload[] | undefined> {
    const unknown = this.#unknown();
    // When an observation ends, all its pods are reported as gone. Refreshing the index releases them.
    if (unknown?.code === NOT_OBSERVED.code && this.#cluster.selections.mapRevision !== undefined)
      await this.#cluster.index.refresh();
    if (unknown !== undefined) return undefined;
    this.#checkUpdaters();
    await this.#cluster.index.refresh();
    return this.#cluster.index.observe(this.#restarted());
  }

  #historyOf(key: string) {
    return this.#records?.of(key) ?? [];
  }

  async #diffHosts(key: string): Promise<HostsDiff | undefined> {
    return await this.#cluster.selections.diff(this.#cluster.index.groupOf(key)?.stale ?? [], ({ namespace, name }) =>
      this.#deps.client.get<RawPod>(corePath("pods", namespace, name), {}, { signal: this.#signal }),
    );
  }

  #askWebhooks() {
    const mapRevision = this.#cluster.selections.mapRevision ?? "";
    return this.#replicas.ask({ mapRevision, maxNames: this.#deps.config.inject.maxNames });
  }

  /** Why the state is not known yet: a list that was not received is not an empty list. */
  #unknown(): Reason | undefined {
    const { unknown } = this.#cluster.pods;
    if (unknown !== undefined) return unknown;
    if (this.#cluster.selections.mapRevision === undefined) return { code: "no-map", text: "no map is published yet" };
    if (this.#records === undefined) return { code: "no-records", text: "earlier restarts are not known yet" };
    return undefined;
  }

  /**
   * An updater becomes silent without a change event. While its reports are not watched, asking for it counts as a
   * report.
   */
  #checkUpdaters(): void {
    const now = this.#deps.now();
    if (now < this.#checkUpdatersAt) return;
    this.#checkUpdatersAt = now + RESYNC_MS;
    this.#cluster.index.changeUpdaters();
  }

  /** Workloads with a restart that has no outcome yet, and workloads with pods and an earlier restart. */
  *#restarted(): Iterable<string> {
    for (const { workload, restarts } of this.#records?.all() ?? []) {
      const isUnfinished = restarts.length > 0 && restarts.at(-1)?.outcome === undefined;
      if (isUnfinished || this.#cluster.index.has(workload)) yield workload;
    }
  }

  async #open(): Promise<undefined> {
    const { client, config, now, wallClock } = this.#deps;
    const { namespace } = config;
    const { maxIntervalMs, rolloutMs, holdMs } = this.#rules;
    const limitsMs = maxIntervalMs + rolloutMs + holdMs;
    this.#records = await RestartRecords.open({ client, namespace, now, wallClock, limitsMs }, this.#signal);
    this.#reconciler.enqueue();
  }

  async #reconcile(): Promise<ReconcileResult> {
    this.#step = await this.#rollout.reconcile(this.#signal);
    if (this.#step !== undefined) this.#report();
    return { requeueAfter: this.#sleepMs() };
  }

  #report(): void {
    const decisions = this.#decisions;
    const keys = this.#cluster.index.notable(this.#events.reported, MAX_REPORTED, decisions);
    this.#events.report(
      this.#cluster.index.summariesOf(keys),
      { get: (key) => this.#cluster.index.decisionOf(key, decisions) },
      (key) => this.#cluster.index.groupOf(key),
    );
  }

  #sleepMs(): number {
    const now = this.#deps.now();
    const never = Number.POSITIVE_INFINITY;
    this.#checkUpdatersAt = Math.min(this.#checkUpdatersAt, this.#cluster.nextSilence() ?? never);
    const next = Math.min(this.#step?.wakeAt ?? never, this.#checkUpdatersAt, this.#cluster.index.nextDue);
    return Math.max(SETTLE_MS, Math.min(next - now, RESYNC_MS));
  }

  async #end(): Promise<void> {
    await Promise.all([
      this.#recordsReader.stop(),
      this.#reconciler.stop(),
      this.#cluster.stop(),
      this.#replicas.stop(),
    ]);
    this.#ended.resolve();
  }
}
