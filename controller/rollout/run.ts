import { show } from "#hostmap/hostnames.ts";
import type { Reason } from "#hostmap/types.ts";
import { excludedNamespaces } from "#lib/config/excluded-namespaces.ts";
import type { Config } from "#lib/config/schema.ts";
import { AgentLeaseReader, type AgentState } from "#lib/documents/agent-lease-reader.ts";
import { kubeMapReader, type Subscription } from "#lib/documents/map-reader.ts";
import { isMap } from "#lib/documents/published-map.ts";
import { describeError } from "#lib/errors/errors.ts";
import { createBackoff } from "#lib/kube/backoff.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { EventRecorder } from "#lib/kube/events.ts";
import type { Fence } from "#lib/kube/fence.ts";
import { corePath } from "#lib/kube/paths.ts";
import { type ReconcileResult, Reconciler } from "#lib/kube/reconciler.ts";
import { startPromptTimer } from "#lib/kube/time.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { NOT_OBSERVED, PodObserver } from "#lib/workloads/pod-observer.ts";
import type { PodFacts, RawPod } from "#lib/workloads/pods.ts";
import { WorkloadInformers } from "#lib/workloads/workload-informers.ts";
import type { Verdicts } from "./cohorts.ts";
import { outdateEarlierPatches } from "./earlier-restarts.ts";
import { EventReporter, type RestartCounters } from "./event-reporter.ts";
import { MapSelections } from "./map-selections.ts";
import type { RolloutMetricsInput } from "./metrics.ts";
import type { ClusterView } from "./observe-workloads.ts";
import { type ObservedWorkload, type RolloutClient, RolloutReconciler } from "./reconciler.ts";
import type { RolloutDecision } from "./restart-decision.ts";
import { begunAt } from "./restart-history.ts";
import { restartRules } from "./restart-limits.ts";
import { RestartRecords } from "./restart-records.ts";
import { type RolloutStatus, rolloutStatus, selectKeys, type WorkloadQuery } from "./rollout-status.ts";
import { WebhookReplicas } from "./webhook-replicas.ts";
import type { HostsDiff } from "./workload-facts.ts";
import { WorkloadIndex } from "./workload-index.ts";

export interface RolloutDeps {
  readonly client: KubeClient;
  readonly config: Pick<Config, "namespace" | "restart" | "agent" | "pods" | "inject">;
  readonly log: Logger;
  readonly events: EventRecorder;
  readonly counters: RestartCounters;
  /** Of the leader's term. */
  readonly fence: Fence;
  /** A monotonic clock, milliseconds. */
  readonly now: () => number;
  /** Milliseconds since 1970: for what is recorded. */
  readonly wallClock: () => number;
}

/** Changes that arrive together are reconciled together. */
const SETTLE_MS = 100;
/** A failed run is retried after this. */
const RETRY_MS = 5_000;
/** Resync interval: for agents that stop renewing. */
const RESYNC_MS = 15_000;
/** Workloads that are reported one by one while they are stuck; the status and the metrics have the others too. */
const MAX_REPORTED = 500;
/** Failures that are remembered, so that each is reported once. */
const MAX_FAILED = 1_000;

/** Restarts the workloads of stale pods: the leader's work for one term, until `signal` aborts. */
export class RolloutController {
  readonly #deps: RolloutDeps;
  readonly #signal: AbortSignal;
  readonly #rollout: RolloutReconciler;
  readonly #events: EventReporter;
  readonly #observer: PodObserver;
  readonly #workloads: WorkloadInformers;
  readonly #replicas: WebhookReplicas;
  readonly #maps: Subscription;
  readonly #ended = Promise.withResolvers<void>();
  readonly #reconciler: Reconciler;
  /** Reads the records. Nothing is decided before that. */
  readonly #recordsReader: Reconciler;
  #agents: AgentLeaseReader | undefined;
  #records: RestartRecords | undefined;
  readonly #selections: MapSelections;
  readonly #index: WorkloadIndex;
  /** Pods and workloads whose failure was reported. */
  readonly #failed = new Set<string>();
  #decision: RolloutDecision | undefined;
  /** When to look for agents that became silent, milliseconds since 1970. */
  #checkAgentsAt = 0;

  constructor(deps: RolloutDeps, signal: AbortSignal) {
    const { client, config, log, now } = deps;
    const onSynced = () => this.#reconciler.enqueue(SETTLE_MS);
    const noting =
      <T>(note: (change: T) => void) =>
      (change: T) => {
        note(change);
        this.#reconciler.enqueue(SETTLE_MS);
      };
    this.#deps = deps;
    this.#signal = signal;
    const retrying = (code: string) => ({
      backoff: createBackoff(RETRY_MS, RETRY_MS),
      onError: (error: unknown) => {
        if (!signal.aborted) log.warn({ code }, describeError(error));
      },
    });
    this.#reconciler = new Reconciler({
      reconcile: () => this.#reconcile(),
      retry: retrying("restart-turn-failed"),
    });
    this.#recordsReader = new Reconciler({
      reconcile: () => this.#open(),
      retry: retrying("restarts-not-read"),
      startTimer: startPromptTimer,
    });
    this.#events = new EventReporter(deps);
    this.#selections = new MapSelections(config.inject.maxNames);
    const rolloutClient: RolloutClient = {
      observe: () => this.#observe(),
      historyOf: (key) => this.#historyOf(key),
      writeHistory: (key, history) => this.#writeHistory(key, history),
      patch: (key, stamp, resourceVersion) => this.#workloads.patch(key, { stamp, resourceVersion, signal }),
      diffHosts: (key) => this.#diffHosts(key),
      askWebhooks: () => this.#askWebhooks(),
      report: (event) => this.#events.reportEvent(event, this.#index.groupOf(event.key)),
      now,
      wallClock: deps.wallClock,
    };
    const rules = restartRules(config);
    this.#rollout = new RolloutReconciler(rolloutClient, rules, log);
    this.#index = new WorkloadIndex({ view: this.#view(), pods: () => this.#observer.pods(), rules, now });
    const index = this.#index;
    this.#workloads = new WorkloadInformers({
      client,
      log,
      namespaces: config.restart.namespaces,
      onChange: noting((change) => index.changeWorkload(change)),
    });
    this.#observer = new PodObserver({
      client,
      log,
      always: config.restart.namespaces.length > 0 || config.agent.enabled,
      withNodes: config.agent.enabled,
      excludedNamespaces: excludedNamespaces(config),
      onPod: noting((change) => {
        this.#workloads.changePod(change);
        index.changePod(change);
      }),
      onNamespace: noting((change) => index.changeNamespace(change)),
      onSynced,
    });
    this.#replicas = new WebhookReplicas({ client, log, namespace: config.namespace });
    this.#maps = kubeMapReader({ client, namespace: config.namespace, log }).start((offer) => {
      if (!isMap(offer) || !this.#selections.setMap(offer)) return;
      this.#index.changeMap();
      onSynced();
    });
    signal.addEventListener("abort", () => void this.#end(), { once: true });
    if (signal.aborted) void this.#end();
    else this.#recordsReader.enqueue();
  }

  /** Resolves when the run in progress and every watch have ended. */
  get done(): Promise<void> {
    return this.#ended.promise;
  }

  /** How many agents follow the map. None is known of while no pod follows by an agent; then none does. */
  get mapReaders(): number {
    return this.#agents?.mapReaders ?? 0;
  }

  /** The longest time, in milliseconds, since a watch last received or tried anything. */
  get inactiveMs(): number {
    const maps = this.#maps.inactiveMs?.() ?? 0;
    const watches = [this.#observer, this.#workloads, this.#replicas, this.#agents];
    return Math.max(maps, ...watches.map((each) => each?.inactiveMs ?? 0));
  }

  /** Somebody asks for the status: where nothing follows the pods, they are observed for some minutes from now on. */
  requestObservation(): void {
    this.#observer.request();
  }

  /** The status, with the workloads that a query selects. */
  status(query: WorkloadQuery = {}): RolloutStatus {
    const { config, now } = this.#deps;
    const restarts = [...(this.#records?.all() ?? [])].flatMap(({ restarts: list }) => list.map(begunAt));
    const { namespace } = query;
    const isWanted = (key: string) => namespace === undefined || key.startsWith(`${namespace}/`);
    const { keys, omitted, next } = selectKeys(this.#index.byUrgency(this.#verdicts, isWanted), query);
    return rolloutStatus({
      unknown: this.#unknown(),
      notice: this.#observer.notice,
      dryRun: config.restart.dryRun,
      underWay: this.#underWay,
      counts: this.#index.counts(this.#verdicts),
      selected: this.#index.summariesOf(keys),
      omitted,
      next,
      verdictOf: (key) => this.#index.verdictOf(key, this.#verdicts),
      historyOf: (key) => this.#historyOf(key),
      restarts,
      now: now(),
    });
  }

  /** What is counted of the opted-in workloads; undefined: they are not known. */
  counts(): RolloutMetricsInput | undefined {
    if (this.#unknown() !== undefined) return undefined;
    const agents = this.#deps.config.agent.enabled ? this.#index.agents : undefined;
    return { ...this.#index.counts(this.#verdicts), shed: this.#observer.shedPods, agents };
  }

  /** The workload that is being restarted. One that has come into step since the last decision is not any more. */
  get #underWay(): string | undefined {
    const decided = [...(this.#decision?.verdicts ?? [])].find(([, { code }]) => code === "restarting")?.[0];
    const isStill = decided !== undefined && this.#index.verdictOf(decided, this.#verdicts)?.code === "restarting";
    return isStill ? decided : undefined;
  }

  /** Verdicts of the workloads that are decided on one by one. */
  get #verdicts(): Verdicts {
    return this.#decision?.verdicts ?? new Map();
  }

  #view(): ClusterView {
    const { restart, pods } = this.#deps.config;
    const listed = new Set(restart.namespaces);
    const controller = this;
    return {
      get namespaces() {
        return controller.#observer.namespaces();
      },
      get mapRevision() {
        return controller.#selections.mapRevision ?? "";
      },
      excludedNamespaces: excludedNamespaces(this.#deps.config),
      choose: (hosts) => this.#selections.choose(hosts),
      fallback: pods.onChange,
      isListed: (namespace) => listed.has(namespace),
      parentOf: (namespace, name) => this.#workloads.parentOf(namespace, name),
      stateOf: (key) => this.#workloads.stateOf(key),
      agentOf: (pod) => this.#agentOf(pod),
      onError: (what, error) => this.#reportFailure(what, error),
    };
  }

  async #observe(): Promise<readonly ObservedWorkload[] | undefined> {
    const unknown = this.#unknown();
    // An observation that has ended has reported its pods as gone: they are let go.
    if (unknown?.code === NOT_OBSERVED.code && this.#selections.mapRevision !== undefined) await this.#index.refresh();
    if (unknown !== undefined) return undefined;
    this.#checkAgents();
    await this.#index.refresh();
    return this.#index.observe(this.#restarted());
  }

  /** Once for each pod or workload, however often it changes. */
  #reportFailure(what: string, error: unknown): void {
    if (this.#failed.has(what)) return;
    if (this.#failed.size >= MAX_FAILED) this.#failed.clear();
    this.#failed.add(what);
    this.#deps.log.error({ code: "pod-failed", what: show(what) }, `left out: ${describeError(error)}`);
  }

  #historyOf(key: string) {
    return this.#records?.of(key) ?? [];
  }

  async #writeHistory(key: string, history: Parameters<RolloutClient["writeHistory"]>[1]): Promise<void> {
    await this.#records?.put(key, history, this.#signal);
  }

  async #diffHosts(key: string): Promise<HostsDiff | undefined> {
    return await this.#selections.diff(this.#index.groupOf(key)?.stale ?? [], ({ namespace, name }) =>
      this.#deps.client.get<RawPod>(corePath("pods", namespace, name), {}, { signal: this.#signal }),
    );
  }

  #askWebhooks() {
    const mapRevision = this.#selections.mapRevision ?? "";
    return this.#replicas.ask({ mapRevision, maxNames: this.#deps.config.inject.maxNames });
  }

  /** Why the state is not known yet: a list that has not been received is not an empty one. */
  #unknown(): Reason | undefined {
    const { unknown } = this.#observer;
    if (unknown !== undefined) return unknown;
    if (this.#selections.mapRevision === undefined) return { code: "no-map", text: "no map is published yet" };
    if (this.#records === undefined) return { code: "no-records", text: "earlier restarts are not known yet" };
    return undefined;
  }

  /** Starts to watch Leases at the first pod that follows live. Where no agents run, there is no right to read them. */
  #agentOf(pod: PodFacts): AgentState | "unknown" | undefined {
    const { client, config, log, now } = this.#deps;
    if (!config.agent.enabled) return undefined;
    this.#agents ??= new AgentLeaseReader({
      client,
      log,
      namespace: config.agent.namespace,
      silenceMs: config.pods.agentSilenceSeconds * 1000,
      // A working agent renews its Lease at least once in this time.
      graceMs: config.agent.renewSeconds * 2_000,
      now,
      onChange: () => {
        this.#index.changeAgents();
        this.#reconciler.enqueue(SETTLE_MS);
      },
    });
    if (!this.#agents.synced) return "unknown";
    return pod.node === undefined ? "unknown" : this.#agents.of(pod.node);
  }

  /** An agent becomes silent without a change; while its Lease is not watched, asking for it counts as hearing of it. */
  #checkAgents(): void {
    const now = this.#deps.now();
    if (now < this.#checkAgentsAt) return;
    this.#checkAgentsAt = now + RESYNC_MS;
    this.#index.changeAgents();
  }

  /** Workloads with a restart that has no outcome yet, and those that have pods and were restarted before. */
  *#restarted(): Iterable<string> {
    for (const { workload, restarts } of this.#records?.all() ?? []) {
      const isUnfinished = restarts.length > 0 && restarts.at(-1)?.outcome === undefined;
      if (isUnfinished || this.#index.has(workload)) yield workload;
    }
  }

  async #open(): Promise<undefined> {
    const { client, config, log, fence, now, wallClock } = this.#deps;
    const { namespace, restart } = config;
    const { maxIntervalMs, rolloutMs, holdMs } = restartRules(config);
    const limitsMs = maxIntervalMs + rolloutMs + holdMs;
    const records = await RestartRecords.open({ client, namespace, fence, now, wallClock, limitsMs }, this.#signal);
    await outdateEarlierPatches(records, { client, fence, log, namespaces: restart.namespaces }, this.#signal);
    this.#records = records;
    this.#reconciler.enqueue();
  }

  async #reconcile(): Promise<ReconcileResult> {
    this.#decision = await this.#rollout.reconcile(this.#signal);
    if (this.#decision !== undefined) this.#report();
    return { requeueAfter: this.#sleepMs() };
  }

  #report(): void {
    const verdicts = this.#verdicts;
    const keys = this.#index.notable(this.#events.reported, MAX_REPORTED, verdicts);
    this.#events.report(this.#index.summariesOf(keys), { get: (key) => this.#index.verdictOf(key, verdicts) }, (key) =>
      this.#index.groupOf(key),
    );
  }

  #sleepMs(): number {
    const now = this.#deps.now();
    const never = Number.POSITIVE_INFINITY;
    this.#checkAgentsAt = Math.min(this.#checkAgentsAt, this.#agents?.nextSilence() ?? never);
    const next = Math.min(this.#decision?.wakeAt ?? never, this.#checkAgentsAt, this.#index.nextDue);
    return Math.max(SETTLE_MS, Math.min(next - now, RESYNC_MS));
  }

  async #end(): Promise<void> {
    await Promise.all([
      this.#recordsReader.stop(),
      this.#reconciler.stop(),
      this.#observer.stop(),
      this.#workloads.stop(),
      this.#replicas.stop(),
      this.#agents?.stop(),
      this.#maps.stop(),
    ]);
    this.#ended.resolve();
  }
}
