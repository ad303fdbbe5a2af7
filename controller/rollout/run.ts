import { type Config, excludedNamespaces } from "../../config/schema.ts";
import { describeError } from "../../errors/errors.ts";
import { createSelector, type SelectedHosts } from "../../hostmap/select-hosts.ts";
import type { PublishedMap } from "../../hostmap/types.ts";
import { createBackoff } from "../../kube/backoff.ts";
import type { KubeClient } from "../../kube/client.ts";
import type { EventRecorder } from "../../kube/events.ts";
import { corePath } from "../../kube/paths.ts";
import { type ReconcileResult, Reconciler } from "../../kube/reconciler.ts";
import { startPromptTimer } from "../../kube/time.ts";
import type { Informer } from "../../kube/watch.ts";
import { AgentLeaseReader, type AgentState } from "../../snapshot/agent-lease-reader.ts";
import { kubeMapReader, type Subscription } from "../../snapshot/map-reader.ts";
import { isMap } from "../../snapshot/published-map.ts";
import type { Logger } from "../../telemetry/log.ts";
import { type NamespaceFacts, watchNamespaces } from "../../workloads/namespaces.ts";
import { PodNodes } from "../../workloads/pod-nodes.ts";
import { type PodFacts, type RawPod, watchPods } from "../../workloads/pods.ts";
import { WorkloadInformers } from "../../workloads/workload-informers.ts";
import { EventReporter, type RestartCounters } from "./event-reporter.ts";
import { hostsDiffOf } from "./hosts-diff.ts";
import { type HostsChoice, observeWorkloads, type WorkloadGroup } from "./observe-workloads.ts";
import { type ObservedWorkload, type RolloutClient, RolloutReconciler } from "./reconciler.ts";
import type { RolloutDecision } from "./restart-decision.ts";
import { restartRules } from "./restart-limits.ts";
import { RestartRecords } from "./restart-records.ts";
import { type RolloutStatus, rolloutStatus } from "./rollout-status.ts";
import { WebhookReplicas } from "./webhook-replicas.ts";
import type { HostsDiff } from "./workload-facts.ts";

interface RolloutDeps {
  readonly client: KubeClient;
  readonly config: Config;
  readonly log: Logger;
  readonly events: EventRecorder;
  readonly counters: RestartCounters;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** Changes that arrive together are reconciled together. */
const SETTLE_MS = 100;
/** A failed run is retried after this. */
const RETRY_MS = 5_000;
/** Resync interval: for pods that were not bound yet, and agents that stop renewing. */
const RESYNC_MS = 15_000;
/** The node of a pod that was not bound yet is read again after this. */
const NODE_MS = 2_000;
/** Stale pods of a workload that are read at most: one of each revision and selection. */
const MAX_SAMPLES = 5;

/** Restarts the workloads of stale pods: the leader's work for one term, until `signal` aborts. */
export class RolloutController {
  readonly #deps: RolloutDeps;
  readonly #signal: AbortSignal;
  readonly #rollout: RolloutReconciler;
  readonly #events: EventReporter;
  readonly #pods: Informer<PodFacts>;
  readonly #namespaces: Informer<NamespaceFacts>;
  readonly #workloads: WorkloadInformers;
  readonly #replicas: WebhookReplicas;
  readonly #nodes: PodNodes;
  readonly #maps: Subscription;
  readonly #excluded: ReadonlySet<string>;
  readonly #ended = Promise.withResolvers<void>();
  readonly #reconciler: Reconciler;
  /** Reads the records. Nothing is decided before that. */
  readonly #recordsReader: Reconciler;
  #agents: AgentLeaseReader | undefined;
  #records: RestartRecords | undefined;
  #map: PublishedMap | undefined;
  #select: (hosts: string | undefined) => SelectedHosts = () => {
    throw new Error("no map yet");
  };
  #choices = new Map<string | undefined, HostsChoice>();
  #groups: readonly WorkloadGroup[] = [];
  #decision: RolloutDecision | undefined;

  constructor(deps: RolloutDeps, signal: AbortSignal) {
    const { client, config, log, now } = deps;
    const onChange = () => this.#reconciler.enqueue(SETTLE_MS);
    const shared = { client, log, onChange };
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
    this.#excluded = excludedNamespaces(config);
    this.#events = new EventReporter(deps);
    const rolloutClient: RolloutClient = {
      observe: () => this.#observe(),
      historyOf: (key) => this.#historyOf(key),
      writeHistory: (key, history) => this.#writeHistory(key, history),
      patch: (key, stamp) => this.#patch(key, stamp),
      diffHosts: (key) => this.#diffHosts(key),
      askWebhooks: () => this.#askWebhooks(),
      report: (event) => this.#events.reportEvent(event, this.#groupOf(event.key)),
      now,
    };
    this.#rollout = new RolloutReconciler(rolloutClient, restartRules(config), log);
    this.#pods = watchPods(shared);
    this.#namespaces = watchNamespaces(shared);
    this.#workloads = new WorkloadInformers({ ...shared, namespaces: config.restart.namespaces });
    this.#replicas = new WebhookReplicas({ client, log, namespace: config.namespace });
    this.#nodes = new PodNodes({ client, log, now, onChange });
    this.#maps = kubeMapReader({ client, namespace: config.namespace, log }).start((offer) => {
      if (isMap(offer)) this.#setMap(offer);
    });
    signal.addEventListener("abort", () => void this.#end(), { once: true });
    if (signal.aborted) void this.#end();
    else this.#recordsReader.enqueue();
  }

  /** Resolves when the run in progress and every watch have ended. */
  get done(): Promise<void> {
    return this.#ended.promise;
  }

  /** The longest time, in milliseconds, since a watch last received or tried anything. */
  get inactiveMs(): number {
    const maps = this.#maps.inactiveMs?.() ?? 0;
    const watches = [this.#pods.state, this.#namespaces.state, this.#workloads, this.#replicas, this.#agents];
    return Math.max(maps, ...watches.map((each) => each?.inactiveMs ?? 0));
  }

  status(): RolloutStatus {
    const { config, now } = this.#deps;
    const restarts = [...(this.#records?.all() ?? [])].flatMap(({ restarts: list }) => list.map(({ at }) => at));
    return rolloutStatus({
      unknown: this.#unknown(),
      dryRun: config.restart.dryRun,
      groups: this.#groups,
      verdicts: this.#decision?.verdicts ?? new Map(),
      historyOf: (key) => this.#historyOf(key),
      restarts,
      now: now(),
    });
  }

  #observe(): readonly ObservedWorkload[] | undefined {
    const map = this.#map;
    if (this.#unknown() !== undefined || map === undefined) return undefined;
    const { pods: settings } = this.#deps.config;
    this.#groups = observeWorkloads({
      pods: this.#pods.objects().values(),
      namespaces: this.#namespaces.objects(),
      excludedNamespaces: this.#excluded,
      choose: (hosts) => this.#choose(hosts),
      mapRevision: map.revision,
      fallback: settings.onChange,
      isListed: (namespace) => this.#workloads.has(namespace),
      parentOf: (namespace, name) => this.#workloads.parentOf(namespace, name),
      stateOf: (key) => this.#workloads.stateOf(key),
      agentOf: (pod) => this.#agentOf(pod),
      unfinished: this.#unfinished(),
    });
    return this.#groups.map(({ observed }) => observed);
  }

  #historyOf(key: string) {
    return this.#records?.of(key) ?? [];
  }

  async #writeHistory(key: string, history: Parameters<RolloutClient["writeHistory"]>[1]): Promise<void> {
    await this.#records?.put(key, history, this.#deps.now(), this.#signal);
  }

  #patch(key: string, stamp: string) {
    return this.#workloads.patch(key, stamp, this.#signal);
  }

  /** Reads one stale pod of each revision and selection. */
  async #diffHosts(key: string): Promise<HostsDiff | undefined> {
    const different = new Map(this.#groupOf(key)?.stale.map((pod) => [`${pod.revision} ${pod.hosts}`, pod]));
    const samples = [...different.values()].slice(0, MAX_SAMPLES);
    const diffs = await Promise.all(
      samples.map(async ({ namespace, name, hosts }) => {
        const path = corePath("pods", namespace, name);
        return hostsDiffOf(
          await this.#deps.client.get<RawPod>(path, {}, { signal: this.#signal }),
          this.#select(hosts),
        );
      }),
    );
    if (diffs.length === 0) return undefined;
    return {
      missing: Math.max(...diffs.map(({ missing }) => missing)),
      extra: Math.max(...diffs.map(({ extra }) => extra)),
    };
  }

  #askWebhooks() {
    const mapRevision = this.#map?.revision ?? "";
    return this.#replicas.ask({ mapRevision, maxNames: this.#deps.config.inject.maxNames });
  }

  /** Why the state is not known yet: a list that has not been received is not an empty one. */
  #unknown(): string | undefined {
    const problem = (what: string, { problem: reason }: Informer<unknown>["state"]) =>
      `the ${what} of the cluster are not known yet${reason === undefined ? "" : `: ${reason.text}`}`;
    if (!this.#pods.state.synced) return problem("pods", this.#pods.state);
    if (!this.#namespaces.state.synced) return problem("namespaces", this.#namespaces.state);
    if (this.#map === undefined) return "no map is published yet";
    if (this.#records === undefined) return "earlier restarts are not known yet";
    return undefined;
  }

  #setMap(map: PublishedMap): void {
    if (map.revision === this.#map?.revision) return;
    this.#map = map;
    this.#select = createSelector(map, this.#deps.config.inject.maxNames);
    this.#choices = new Map();
    this.#reconciler.enqueue(SETTLE_MS);
  }

  #choose(hosts: string | undefined): HostsChoice {
    const known = this.#choices.get(hosts);
    if (known !== undefined) return known;
    const { revision, total, cap } = this.#select(hosts);
    const choice = { revision, total, cap };
    this.#choices.set(hosts, choice);
    return choice;
  }

  /** Starts to watch Leases at the first pod that follows live: without one, permission to read them may be missing. */
  #agentOf(pod: PodFacts): AgentState | "unknown" | undefined {
    const { client, config, log, now } = this.#deps;
    this.#agents ??= new AgentLeaseReader({
      client,
      log,
      namespace: config.agent.namespace,
      silenceMs: config.pods.agentSilenceSeconds * 1000,
      // A working agent renews its Lease at least once in this time.
      graceMs: config.agent.renewSeconds * 2_000,
      now,
      onChange: () => this.#reconciler.enqueue(SETTLE_MS),
    });
    if (!this.#agents.synced) return "unknown";
    const node = this.#nodes.of(pod);
    return node === undefined ? "unknown" : this.#agents.of(node);
  }

  *#unfinished(): Iterable<string> {
    for (const { workload, restarts } of this.#records?.all() ?? []) {
      const last = restarts.at(-1);
      if (last !== undefined && last.outcome === undefined) yield workload;
    }
  }

  #groupOf(key: string): WorkloadGroup | undefined {
    return this.#groups.find(({ owner }) => owner.key === key);
  }

  async #open(): Promise<undefined> {
    const { client, config } = this.#deps;
    this.#records = await RestartRecords.open(client, config.namespace, this.#signal);
    this.#reconciler.enqueue();
  }

  async #reconcile(): Promise<ReconcileResult> {
    try {
      this.#decision = await this.#rollout.reconcile(this.#signal);
      if (this.#decision !== undefined) this.#events.report(this.#groups, this.#decision.verdicts);
      return { requeueAfter: this.#sleepMs() };
    } finally {
      this.#nodes.refresh(new Set([...this.#pods.objects().values()].map(({ uid }) => uid)), this.#signal);
    }
  }

  #sleepMs(): number {
    const now = this.#deps.now();
    const never = Number.POSITIVE_INFINITY;
    const next = Math.min(this.#decision?.wakeAt ?? never, this.#agents?.nextSilence() ?? never);
    const longest = this.#nodes.pending ? NODE_MS : RESYNC_MS;
    return Math.max(SETTLE_MS, Math.min(next - now, longest));
  }

  async #end(): Promise<void> {
    await Promise.all([
      this.#recordsReader.stop(),
      this.#reconciler.stop(),
      this.#pods.stop(),
      this.#namespaces.stop(),
      this.#workloads.stop(),
      this.#replicas.stop(),
      this.#agents?.stop(),
      this.#maps.stop(),
    ]);
    this.#ended.resolve();
  }
}
