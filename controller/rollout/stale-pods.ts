import { show } from "#hostmap/hostnames.ts";
import { effectiveOnChange } from "#hostmap/on-change.ts";
import type { OptInRules } from "#hostmap/opt-in.ts";
import { isByDns } from "#hostmap/pod-dns-marks.ts";
import { createSelector, type SelectedHosts } from "#hostmap/pod-selection.ts";
import type { PublishedMap, Reason } from "#hostmap/types.ts";
import { optInRules, restartNamespaces } from "#lib/config/opt-in.ts";
import { kubeMapReader, type Subscription } from "#lib/documents/map-reader.ts";
import { isMap } from "#lib/documents/published-map.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { timeSlices } from "#lib/kube/time.ts";
import type { Informer } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { type NamespaceFacts, watchNamespaces } from "#lib/workloads/namespaces.ts";
import { inferFromNames, ownerOf } from "#lib/workloads/owners.ts";
import { isOptedIn } from "#lib/workloads/pod-opt-in.ts";
import type { PodFacts } from "#lib/workloads/pods.ts";
import { WatchedPods } from "#lib/workloads/watched-pods.ts";
import { type Agents, countAgents, type ObserveAgents } from "./live.ts";
import { checkFacts } from "./may-restart.ts";
import { NOT_DECIDED, newWorkload, type RestartConfig, type Workload } from "./workload.ts";

interface StalePodsDeps {
  readonly client: KubeClient;
  readonly config: RestartConfig;
  /** Undefined: no agent edits the hosts files of running pods. */
  readonly observeAgents: ObserveAgents | undefined;
  readonly log: Logger;
  /** A monotonic clock, milliseconds. */
  readonly now: () => number;
  /** Called after each change. `refresh` evaluates it. */
  readonly onChange: () => void;
  /** Called after a workload was evaluated. If its last pod is gone, it has no pods. */
  readonly onEvaluated: (workload: Workload) => void;
}

/** Maximum number of reported failures of pods. */
const MAX_FAILED = 1_000;
/** How long the on-change annotation of a workload with live pods is used before it is read again. */
const READ_MS = 300_000;

/**
 * The opted-in pods of the cluster by workload. A pod is stale if its revision is not that of its selection. A change
 * marks the workload that it touches, a new map marks all, and `refresh` evaluates what is marked.
 */
export class StalePods {
  readonly #deps: StalePodsDeps;
  readonly #rules: OptInRules;
  readonly #namespaces: Informer<NamespaceFacts>;
  readonly #listed: ReadonlySet<string>;
  readonly #pods: WatchedPods;
  readonly #maps: Subscription;
  readonly #workloads = new Map<string, Workload>();
  readonly #workloadOf = new Map<string, Workload>();
  readonly #changed = new Set<Workload>();
  /** Namespaces whose labels or annotations changed. */
  readonly #rescan = new Set<string>();
  /** Workloads with a pod in mode `live`. */
  readonly #live = new Set<Workload>();
  readonly #queue = new Set<Workload>();
  readonly #failed = new Set<string>();
  #agents: Agents | undefined;
  #map: PublishedMap | undefined;
  #select: ReturnType<typeof createSelector> | undefined;
  /** By the value of `switchback.dev/hosts`: each is computed once per map. */
  #choices = new Map<string | undefined, Pick<SelectedHosts, "revision" | "total" | "cap">>();

  constructor(deps: StalePodsDeps) {
    const { client, config, log, onChange } = deps;
    this.#deps = deps;
    this.#rules = optInRules(config);
    this.#listed = new Set(restartNamespaces(config));
    this.#pods = new WatchedPods({
      client,
      log,
      withNodes: deps.observeAgents !== undefined,
      listed: [...this.#listed],
      onPod: (key) => {
        this.#changePod(key);
        onChange();
      },
      onSynced: onChange,
    });
    this.#namespaces = watchNamespaces({
      client,
      log,
      onChange: ({ key }) => {
        this.#rescan.add(key);
        onChange();
      },
      onSynced: onChange,
    });
    this.#maps = kubeMapReader({ client, namespace: config.namespace, log }).start((offer) => {
      if (!isMap(offer)) return;
      this.#map = offer;
      this.#select = createSelector(offer, config.inject.maxNames);
      this.#choices = new Map();
      for (const workload of this.#workloads.values()) this.#changed.add(workload);
      onChange();
    });
  }

  /** Why the state is not known yet: a list that was not received is not an empty list. */
  get unknown(): Reason | undefined {
    const missing = this.#informers().find(({ state }) => !state.synced)?.state;
    if (missing !== undefined) {
      const detail = missing.problem === undefined ? "" : `: ${missing.problem.text}`;
      return { code: "pods-not-listed", text: `the pods of the cluster are not known yet${detail}` };
    }
    return this.#map === undefined ? { code: "no-map", text: "no map is published yet" } : undefined;
  }

  /** The workloads with opted-in pods, by `namespace/Kind/name`. */
  get workloads(): ReadonlyMap<string, Workload> {
    return this.#workloads;
  }

  /** The workloads for which only their own state, their restarts and the time decide. */
  get queue(): ReadonlySet<Workload> {
    return this.#queue;
  }

  /** The published map. Undefined: not known yet. */
  get map(): PublishedMap | undefined {
    return this.#map;
  }

  get agents(): Agents | undefined {
    return this.#agents;
  }

  /** Numbers of nodes with live pods, by the state of their agent. Undefined: there are no agents. */
  countAgents(): Readonly<Record<string, number>> | undefined {
    if (this.#deps.observeAgents === undefined) return undefined;
    const pods = [...this.#live].flatMap((workload) => [...workload.pods.values()]);
    return countAgents(pods, this.#agents ?? { of: () => "unknown" });
  }

  /** The longest time, in milliseconds, since a watch last received or tried anything. */
  get inactiveMs(): number {
    const watches = this.#informers().map(({ state }) => state.inactiveMs);
    return Math.max(this.#maps.inactiveMs?.() ?? 0, this.#agents?.inactiveMs ?? 0, ...watches);
  }

  /** The names that a selection gets. Throws if no map is known yet. */
  select(hosts: string | undefined): SelectedHosts {
    if (this.#select === undefined) throw new Error("no map yet");
    return this.#select(hosts);
  }

  /** Marks a workload, because its own annotation was read. */
  touch(workload: Workload): void {
    if (this.#workloads.get(workload.owner.key) === workload) this.#changed.add(workload);
  }

  /** Marks the workloads with live pods, because an agent has reported something or may be silent. */
  touchLive(): void {
    for (const workload of this.#live) this.#changed.add(workload);
  }

  /** Evaluates what is marked, in slices. After it resolves, nothing changes until the caller yields. */
  async refresh(): Promise<void> {
    const sliceEnd = timeSlices();
    while (this.#changed.size > 0 || this.#rescan.size > 0) {
      for (const _ of this.#steps()) {
        const ended = sliceEnd();
        if (ended !== undefined) await ended;
      }
    }
  }

  async stop(): Promise<void> {
    await Promise.all([this.#maps.stop(), this.#agents?.stop(), ...this.#informers().map((each) => each.stop())]);
  }

  *#steps(): Iterable<undefined> {
    const namespaces = new Set(this.#rescan);
    this.#rescan.clear();
    for (const informer of namespaces.size > 0 ? this.#pods.informers : []) {
      for (const [key, { namespace }] of informer.objects()) {
        if (namespaces.has(namespace)) this.#changePod(key);
        yield;
      }
    }
    for (const workload of this.#changed) {
      this.#changed.delete(workload);
      this.#guarded(workload.owner.key, () => this.#evaluate(workload));
      yield;
    }
  }

  #changePod(key: string): void {
    const pod = this.#pods.get(key);
    const before = this.#workloadOf.get(key);
    const owner = pod && this.#guarded(key, () => this.#ownerOf(pod));
    if (before !== undefined && before.owner.key !== owner?.key) {
      before.pods.delete(key);
      this.#workloadOf.delete(key);
      this.#changed.add(before);
    }
    if (pod === undefined || owner === undefined) return;
    const workload = this.#workloads.get(owner.key) ?? this.#add(owner);
    workload.pods.set(key, pod);
    this.#workloadOf.set(key, workload);
    this.#changed.add(workload);
  }

  /** The owner of a pod that opted in. A terminating pod does not count: its replacement does. */
  #ownerOf(pod: PodFacts): Workload["owner"] | undefined {
    if (pod.terminating || !isOptedIn(pod, this.#namespaces.objects().get(pod.namespace), this.#rules))
      return undefined;
    return ownerOf(pod, inferFromNames);
  }

  #add(owner: Workload["owner"]): Workload {
    const workload = newWorkload(owner, this.#listed.has(owner.namespace), this.#deps.config.pods.onChange);
    this.#workloads.set(owner.key, workload);
    return workload;
  }

  #evaluate(workload: Workload): void {
    this.#queue.delete(workload);
    this.#live.delete(workload);
    if (workload.pods.size === 0) this.#workloads.delete(workload.owner.key);
    else if (this.#map === undefined) return;
    else this.#weigh(workload);
    this.#deps.onEvaluated(workload);
  }

  #weigh(workload: Workload): void {
    const { owner, pods, read } = workload;
    const levels = { workload: read?.onChange, namespace: this.#namespaces.objects().get(owner.namespace)?.onChange };
    const fallback = this.#deps.config.pods.onChange;
    const stale: PodFacts[] = [];
    const wanted = new Set<string>();
    let onChange: Workload["onChange"] | undefined;
    workload.notInjected = 0;
    workload.liveByDefault = false;
    workload.agent = workload.overCap = workload.unfollowed = undefined;
    for (const pod of pods.values()) {
      const own = effectiveOnChange({ pod: pod.onChange, ...levels, fallback });
      if (pod.revision === undefined) workload.notInjected += 1;
      if (pod.unfollowed !== undefined && pod.revision !== undefined) workload.unfollowed = pod.unfollowed;
      else if (this.#isStale(pod, own, workload, wanted)) {
        if (stale.length === 0) onChange = own;
        stale.push(pod);
      }
      onChange ??= own;
    }
    if (onChange !== undefined) workload.onChange = onChange;
    this.#note(workload, stale, [...wanted].sort().join("+"));
    const fixed = this.#isUnread(workload) ? undefined : checkFacts(workload);
    if (fixed === undefined) this.#queue.add(workload);
    else workload.decision = fixed;
  }

  /** Whether the annotation of a listed workload may end the mode `live` of its pods. */
  #isUnread({ owner, listed, liveByDefault, read }: Workload): boolean {
    if (!listed || !liveByDefault || owner.unrestartable !== undefined) return false;
    return read === undefined || this.#deps.now() > read.at + READ_MS;
  }

  /** Whether a pod lacks what a new pod would get. A pod in mode `live` is current if its agent is alive. */
  #isStale(pod: PodFacts, { mode, from }: Workload["onChange"], workload: Workload, wanted: Set<string>): boolean {
    const { revision, total, cap } = this.#choose(pod.hosts);
    wanted.add(revision);
    // The resolvers of a pod with pod DNS follow the map, and have no limit.
    if (isByDns(pod.revision)) return false;
    if (total > cap) workload.overCap = { total, cap };
    if (mode === "live") this.#live.add(workload);
    if (pod.revision === revision) return false;
    if (mode !== "live") return true;
    if (from !== "pod") workload.liveByDefault = true;
    const agent = this.#agentOf(pod);
    if (agent === "unknown" || agent === "problem") workload.agent ??= agent;
    return agent !== "alive";
  }

  #note(workload: Workload, stale: readonly PodFacts[], to: string): void {
    const now = this.#deps.now();
    const debounceMs = this.#deps.config.restart.debounceSeconds * 1_000;
    if (workload.stale.length === 0) {
      workload.since = workload.changingSince = workload.staleSince = now;
    } else if (to !== workload.to) {
      if (now - workload.since >= debounceMs) workload.changingSince = now;
      workload.since = now;
    }
    const revisions = [...new Set(stale.map(({ revision = "" }) => revision))].sort();
    const signature = `${to} ${revisions.join()} ${workload.onChange.mode} ${workload.agent}`;
    if (signature !== workload.signature) workload.decision = NOT_DECIDED;
    Object.assign(workload, { stale, to, signature });
  }

  #choose(hosts: string | undefined) {
    const known = this.#choices.get(hosts);
    if (known !== undefined) return known;
    const { revision, total, cap } = this.select(hosts);
    const choice = { revision, total, cap };
    this.#choices.set(hosts, choice);
    return choice;
  }

  #agentOf(pod: PodFacts) {
    const { observeAgents, client, log, now, onChange } = this.#deps;
    const onReport = () => {
      this.touchLive();
      onChange();
    };
    this.#agents ??= observeAgents?.({ client, log, now, onChange: onReport });
    return this.#agents?.of(pod) ?? "absent";
  }

  /** An internal error at one pod or workload leaves that one out, and is reported once. */
  #guarded<T>(what: string, evaluate: () => T): T | undefined {
    try {
      return evaluate();
    } catch (error) {
      if (this.#failed.size >= MAX_FAILED) this.#failed.clear();
      if (!this.#failed.has(what))
        this.#deps.log.error({ code: "pod-failed", what: show(what) }, `left out: ${describeError(error)}`);
      this.#failed.add(what);
      return undefined;
    }
  }

  #informers(): ReadonlyArray<Pick<Informer<unknown>, "state" | "stop">> {
    return [this.#namespaces, ...this.#pods.informers];
  }
}
