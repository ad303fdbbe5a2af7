import { show } from "#hostmap/hostnames.ts";
import { excludedNamespaces } from "#lib/config/excluded-namespaces.ts";
import type { Config } from "#lib/config/schema.ts";
import { AgentLeaseReader, type AgentState } from "#lib/documents/agent-lease-reader.ts";
import { kubeMapReader, type Subscription } from "#lib/documents/map-reader.ts";
import { isMap } from "#lib/documents/published-map.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { PodObserver } from "#lib/workloads/pod-observer.ts";
import type { PodFacts } from "#lib/workloads/pods.ts";
import { WorkloadInformers } from "#lib/workloads/workload-informers.ts";
import { MapSelections } from "./map-selections.ts";
import type { ClusterView } from "./observe-workloads.ts";
import type { RestartRules } from "./restart-limits.ts";
import { WorkloadIndex } from "./workload-index.ts";

interface ClusterDeps {
  readonly client: KubeClient;
  readonly config: Pick<Config, "namespace" | "restart" | "agent" | "pods" | "inject">;
  readonly log: Logger;
  readonly rules: Pick<RestartRules, "agentMs">;
  /** A monotonic clock, milliseconds. */
  readonly now: () => number;
}

/** Failures that are remembered, so that each is reported once. */
const MAX_FAILED = 1_000;

/** What restarts depend on: the published map, the pods with their workloads, and the agents. */
export class ObservedCluster {
  readonly selections: MapSelections;
  readonly workloads: WorkloadInformers;
  readonly pods: PodObserver;
  readonly index: WorkloadIndex;
  readonly #deps: ClusterDeps;
  /** Pods and workloads whose failure was reported. */
  readonly #failed = new Set<string>();
  #agents: AgentLeaseReader | undefined;
  #maps: Subscription | undefined;
  #onChange: () => void = () => {};

  constructor(deps: ClusterDeps) {
    const { client, config, log, rules, now } = deps;
    const { restart, agent, inject } = config;
    this.#deps = deps;
    this.selections = new MapSelections(inject.maxNames);
    this.workloads = new WorkloadInformers({ client, log, namespaces: restart.namespaces });
    this.pods = new PodObserver({
      client,
      log,
      always: restart.namespaces.length > 0 || agent.enabled,
      withNodes: agent.enabled,
      excludedNamespaces: excludedNamespaces(config),
    });
    this.index = new WorkloadIndex({ view: this.#view(), pods: () => this.pods.pods(), rules, now });
  }

  /** Starts every watch. `onChange` is called after each change. */
  start(onChange: () => void): void {
    const { client, config, log } = this.#deps;
    const { selections, workloads, pods, index } = this;
    this.#onChange = onChange;
    workloads.follow((change) => {
      index.changeWorkload(change);
      onChange();
    });
    pods.start({
      onPod: (change) => {
        workloads.changePod(change);
        index.changePod(change);
        onChange();
      },
      onNamespace: (change) => {
        index.changeNamespace(change);
        onChange();
      },
      onSynced: onChange,
    });
    this.#maps = kubeMapReader({ client, namespace: config.namespace, log }).start((offer) => {
      if (!isMap(offer) || !selections.setMap(offer)) return;
      index.changeMap();
      onChange();
    });
  }

  /** How many agents follow the map. */
  get mapReaders(): number {
    return this.#agents?.mapReaders ?? 0;
  }

  /** When the next agent becomes silent if it does not report again; undefined: never. */
  nextSilence(): number | undefined {
    return this.#agents?.nextSilence();
  }

  /** The longest time, in milliseconds, since a watch last received or tried anything. */
  get inactiveMs(): number {
    const maps = this.#maps?.inactiveMs?.() ?? 0;
    return Math.max(maps, this.pods.inactiveMs, this.workloads.inactiveMs, this.#agents?.inactiveMs ?? 0);
  }

  async stop(): Promise<void> {
    await Promise.all([this.pods.stop(), this.workloads.stop(), this.#agents?.stop(), this.#maps?.stop()]);
  }

  #view(): ClusterView {
    const { selections, workloads, pods } = this;
    const { config } = this.#deps;
    const listed = new Set(config.restart.namespaces);
    return {
      get namespaces() {
        return pods.namespaces();
      },
      get mapRevision() {
        return selections.mapRevision ?? "";
      },
      excludedNamespaces: excludedNamespaces(config),
      choose: (hosts) => selections.choose(hosts),
      fallback: config.pods.onChange,
      isListed: (namespace) => listed.has(namespace),
      parentOf: (namespace, name) => workloads.parentOf(namespace, name),
      stateOf: (key) => workloads.stateOf(key),
      agentOf: (pod) => this.#agentOf(pod),
      onError: (what, error) => this.#reportFailure(what, error),
    };
  }

  /** Starts to watch Leases at the first pod that follows live. Without agents there is no right to read them. */
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
        this.index.changeAgents();
        this.#onChange();
      },
    });
    if (!this.#agents.synced) return "unknown";
    return pod.node === undefined ? "unknown" : this.#agents.of(pod.node);
  }

  /** Reports each pod or workload once, however often it changes. */
  #reportFailure(what: string, error: unknown): void {
    if (this.#failed.has(what)) return;
    if (this.#failed.size >= MAX_FAILED) this.#failed.clear();
    this.#failed.add(what);
    this.#deps.log.error({ code: "pod-failed", what: show(what) }, `left out: ${describeError(error)}`);
  }
}
