import { show } from "#hostmap/hostnames.ts";
import { optInRules, restartNamespaces } from "#lib/config/opt-in.ts";
import type { Config } from "#lib/config/schema.ts";
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
import type { ObservedUpdater, PodUpdater, UpdaterOfPod } from "./pod-updater.ts";
import type { RestartRules } from "./restart-limits.ts";
import { WorkloadIndex } from "./workload-index.ts";

interface ClusterDeps {
  readonly client: KubeClient;
  readonly config: Pick<Config, "namespace" | "restart" | "pods" | "optIn" | "inject">;
  readonly log: Logger;
  readonly updaters: readonly PodUpdater[];
  readonly rules: Pick<RestartRules, "updaterMs">;
  /** A monotonic clock, milliseconds. */
  readonly now: () => number;
}

/** Maximum number of remembered failures. They are remembered so that each is reported once. */
const MAX_FAILED = 1_000;

/** Everything that restarts depend on: the published map, the pods with their workloads, and their updaters. */
export class ObservedCluster {
  readonly selections: MapSelections;
  readonly workloads: WorkloadInformers;
  readonly pods: PodObserver;
  readonly index: WorkloadIndex;
  readonly #deps: ClusterDeps;
  /** Pods and workloads whose failure was reported. */
  readonly #failed = new Set<string>();
  /** The observed `updaters`. Empty until the first pod in mode `live`. */
  #observed: readonly ObservedUpdater[] = [];
  #maps: Subscription | undefined;
  #onChange: () => void = () => {};

  constructor(deps: ClusterDeps) {
    const { client, config, log, updaters, rules, now } = deps;
    const namespaces = restartNamespaces(config);
    const hasUpdaters = updaters.length > 0;
    this.#deps = deps;
    this.selections = new MapSelections(config.inject.maxNames);
    this.workloads = new WorkloadInformers({ client, log, namespaces });
    this.pods = new PodObserver({
      client,
      log,
      always: namespaces.length > 0 || hasUpdaters,
      withNodes: hasUpdaters,
      optIn: optInRules(config),
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

  /** How many processes read the map for running pods. */
  get mapReaders(): number {
    return this.#observed.reduce((sum, { mapReaders }) => sum + mapReaders, 0);
  }

  /** When the next updater becomes silent if it does not report again; undefined: never. */
  nextSilence(): number | undefined {
    const times = this.#observed.map((updater) => updater.nextSilence()).filter((time) => time !== undefined);
    return times.length === 0 ? undefined : Math.min(...times);
  }

  /** The longest time, in milliseconds, since a watch last received or tried anything. */
  get inactiveMs(): number {
    const maps = this.#maps?.inactiveMs?.() ?? 0;
    const ofUpdaters = this.#observed.map(({ inactiveMs }) => inactiveMs);
    return Math.max(maps, this.pods.inactiveMs, this.workloads.inactiveMs, ...ofUpdaters);
  }

  async stop(): Promise<void> {
    const updaters = this.#observed.map((updater) => updater.stop());
    await Promise.all([this.pods.stop(), this.workloads.stop(), this.#maps?.stop(), ...updaters]);
  }

  #view(): ClusterView {
    const { selections, workloads, pods } = this;
    const { config } = this.#deps;
    const listed = new Set(restartNamespaces(config));
    return {
      get namespaces() {
        return pods.namespaces();
      },
      get mapRevision() {
        return selections.mapRevision ?? "";
      },
      optIn: optInRules(config),
      choose: (hosts) => selections.choose(hosts),
      fallback: config.pods.onChange,
      isListed: (namespace) => listed.has(namespace),
      parentOf: (namespace, name) => workloads.parentOf(namespace, name),
      stateOf: (key) => workloads.stateOf(key),
      updaterOf: (pod) => this.#updaterOf(pod),
      onError: (what, error) => this.#reportFailure(what, error),
    };
  }

  /** Starts to observe the updaters when it is called for the first pod in mode `live`. */
  #updaterOf(pod: PodFacts): UpdaterOfPod {
    if (this.#observed.length === 0) this.#observed = this.#observe();
    for (const updater of this.#observed) {
      const found = updater.of(pod);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  #observe(): readonly ObservedUpdater[] {
    const { client, log, now, updaters } = this.#deps;
    const onChange = () => {
      this.index.changeUpdaters();
      this.#onChange();
    };
    return updaters.map((updater) => updater.observe({ client, log, now, onChange }));
  }

  /** Reports the failure of each pod or workload once, however often it changes. */
  #reportFailure(what: string, error: unknown): void {
    if (this.#failed.has(what)) return;
    if (this.#failed.size >= MAX_FAILED) this.#failed.clear();
    this.#failed.add(what);
    this.#deps.log.error({ code: "pod-failed", what: show(what) }, `left out: ${describeError(error)}`);
  }
}
