import { show } from "#hostmap/hostnames.ts";
import { effectiveOnChange } from "#hostmap/on-change.ts";
import type { OptInRules } from "#hostmap/opt-in.ts";
import { isByDns } from "#hostmap/pod-dns-marks.ts";
import { createSelector, type SelectedHosts } from "#hostmap/pod-selection.ts";
import type { PublishedMap } from "#hostmap/types.ts";
import { optInRules, restartNamespaces } from "#lib/config/opt-in.ts";
import type { Subscription } from "#lib/documents/map-reader.ts";
import { isMap } from "#lib/documents/published-map.ts";
import { describeError } from "#lib/errors/errors.ts";
import { timeSlices } from "#lib/kube/time.ts";
import type { Informer } from "#lib/kube/watch.ts";
import { isOptedIn, type NamespaceFacts, watchNamespaces } from "#lib/workloads/namespaces.ts";
import { type Owner, ownerOf } from "#lib/workloads/owners.ts";
import type { PodFacts } from "#lib/workloads/pods.ts";
import { WatchedPods } from "#lib/workloads/watched-pods.ts";
import { checkFacts } from "./may-restart.ts";
import { type AgentOfPod, type Agents, ITS_TURN, newWorkload, type RestarterDeps, type Workload } from "./workload.ts";

interface StalePodsDeps extends Pick<RestarterDeps, "client" | "config" | "maps" | "observeAgents" | "log" | "now"> {
  /** Called after each change. `refresh` evaluates it. */
  readonly onChange: () => void;
}

const CURRENT: readonly AgentOfPod[] = ["alive", "unknown"];
/** How long the on-change annotation of a workload with live pods is used before it is read again. */
const READ_MS = 300_000;

/**
 * The opted-in pods of the cluster by workload. A pod is stale if its revision is not that of its selection. After a
 * change, one pass evaluates all of them.
 */
export class StalePods {
  readonly #deps: StalePodsDeps;
  readonly #rules: OptInRules;
  readonly #listed: ReadonlySet<string>;
  readonly #namespaces: Informer<NamespaceFacts>;
  readonly #pods: WatchedPods;
  readonly #maps: Subscription;
  readonly #workloads = new Map<string, Workload>();
  #hasChanged = true;
  #passMs = 0;
  /** When the next agent may become silent. */
  #silentAt = Number.POSITIVE_INFINITY;
  #agents: Agents | undefined;
  #map: PublishedMap | undefined;
  #select: ReturnType<typeof createSelector> | undefined;
  /** By the value of `switchback.dev/hosts`: each is computed once per map. */
  #revisions = new Map<string | undefined, string>();

  constructor(deps: StalePodsDeps) {
    const { client, config, log } = deps;
    this.#deps = deps;
    this.#rules = optInRules(config);
    this.#listed = new Set(restartNamespaces(config));
    const watch = { client, log, onSynced: this.#changed, onChange: this.#changed };
    const withNodes = deps.observeAgents !== undefined;
    this.#pods = new WatchedPods({ ...watch, withNodes, listed: [...this.#listed] });
    this.#namespaces = watchNamespaces(watch);
    this.#maps = deps.maps.start((offer) => {
      if (!isMap(offer)) return;
      this.#map = offer;
      this.#select = createSelector(offer, config.inject.maxNames);
      this.#revisions = new Map();
      this.#changed();
    });
  }

  /** Why the state is not known yet: a list that was not received is not an empty list. */
  get unknown(): string | undefined {
    const missing = this.#informers().find(({ state }) => !state.synced)?.state;
    if (missing === undefined) return this.#map === undefined ? "no map is published yet" : undefined;
    const detail = missing.problem === undefined ? "" : `: ${missing.problem.text}`;
    return `the pods of the cluster are not known yet${detail}`;
  }

  /** The workloads with opted-in pods, by `namespace/Kind/name`. */
  get workloads(): ReadonlyMap<string, Workload> {
    return this.#workloads;
  }

  /** The published map. Undefined: not known yet. */
  get map(): PublishedMap | undefined {
    return this.#map;
  }

  /** Undefined until a pod is in mode `live`. */
  get agents(): Agents | undefined {
    return this.#agents;
  }

  /** The longest time, in milliseconds, since a watch last received or tried anything. */
  get inactiveMs(): number {
    const watches = this.#informers().map(({ state }) => state.inactiveMs);
    return Math.max(this.#maps.inactiveMs?.() ?? 0, this.#agents?.inactiveMs ?? 0, ...watches);
  }

  /** The pause after a pass, in milliseconds. A pass takes at most a tenth of the time. */
  get pauseMs(): number {
    return this.#passMs * 9;
  }

  /** The names that a selection gets. Throws if no map is known yet. */
  select(hosts: string | undefined): SelectedHosts {
    if (this.#select === undefined) throw new Error("no map yet");
    return this.#select(hosts);
  }

  /**
   * Evaluates all pods, in slices, if anything has changed, or an agent has become silent. What changes meanwhile waits
   * for the next call.
   */
  async refresh(): Promise<void> {
    const begun = this.#deps.now();
    if (this.#map === undefined || !(this.#hasChanged || begun >= this.#silentAt)) return;
    this.#hasChanged = false;
    const sliceEnd = timeSlices();
    for (const [key, { owner, pods }] of await this.#group(sliceEnd)) {
      const workload = this.#workloads.get(key) ?? newWorkload(owner, this.#listed.has(owner.namespace));
      this.#guarded(key, () => this.evaluate(workload, pods));
      const ended = sliceEnd();
      if (ended !== undefined) await ended;
    }
    this.#silentAt = this.#agents?.nextSilence() ?? Number.POSITIVE_INFINITY;
    this.#passMs = this.#deps.now() - begun;
  }

  /** The opted-in pods of each workload. The workloads of the last time may have none. */
  async #group(sliceEnd: ReturnType<typeof timeSlices>) {
    const found = new Map<string, { readonly owner: Owner; readonly pods: PodFacts[] }>();
    for (const pod of this.#pods.all()) {
      const owner = this.#guarded(pod.name, () => this.#ownerOf(pod));
      const known = owner && found.get(owner.key);
      if (known !== undefined) known.pods.push(pod);
      else if (owner !== undefined) found.set(owner.key, { owner, pods: [pod] });
      const ended = sliceEnd();
      if (ended !== undefined) await ended;
    }
    for (const [key, { owner }] of this.#workloads) if (!found.has(key)) found.set(key, { owner, pods: [] });
    return found;
  }

  /** Evaluates one workload. `pods`: its opted-in pods; default: those of the last time. */
  evaluate(workload: Workload, pods = workload.pods): void {
    const { owner, read } = workload;
    const namespace = this.#namespaces.objects().get(owner.namespace)?.onChange;
    const levels = { workload: read?.onChange, namespace, fallback: this.#deps.config.pods.onChange };
    const onChangeOf = (pod: PodFacts | undefined) => effectiveOnChange({ pod: pod?.onChange, ...levels });
    const wanted = new Set<string>();
    Object.assign(workload, { pods, isLiveByDefault: false, unfollowed: undefined });
    const stale = pods.filter((pod) => this.#isStale(pod, onChangeOf(pod), workload, wanted));
    workload.live = pods.filter((pod) => onChangeOf(pod).mode === "live");
    workload.notInjected = pods.filter(({ revision }) => revision === undefined).length;
    workload.onChange = onChangeOf(stale[0] ?? pods[0]);
    this.#note(workload, stale, [...wanted].sort().join("+"));
    const fixed = this.#isUnread(workload) ? undefined : checkFacts(workload);
    workload.isQueued = fixed === undefined;
    if (fixed !== undefined) workload.decision = fixed;
    if (pods.length === 0) this.#workloads.delete(owner.key);
    else this.#workloads.set(owner.key, workload);
  }

  /** Numbers of nodes with pods in mode `live`, by the state of their agent. */
  countAgents(): Readonly<Record<string, number>> {
    if (this.#deps.observeAgents === undefined) return {};
    const live = [...this.#workloads.values()].flatMap((workload) => workload.live);
    const states = [...new Map(live.map((pod) => [pod.node, this.#agentOf(pod)])).values()];
    const count = (...wanted: AgentOfPod[]) => states.filter((state) => wanted.includes(state)).length;
    return { alive: count("alive", "problem"), silent: count("silent"), absent: count("absent") };
  }

  async stop(): Promise<void> {
    await Promise.all([this.#maps.stop(), this.#agents?.stop(), ...this.#informers().map((each) => each.stop())]);
  }

  /** The owner of a pod that opted in. A terminating pod does not count: its replacement does. */
  #ownerOf(pod: PodFacts): Owner | undefined {
    const namespace = this.#namespaces.objects().get(pod.namespace);
    return pod.terminating || !isOptedIn(pod, namespace, this.#rules) ? undefined : ownerOf(pod);
  }

  /** Whether a pod lacks what a new pod would get. A pod in mode `live` is current while its agent is alive. */
  #isStale(pod: PodFacts, { mode, from }: Workload["onChange"], workload: Workload, wanted: Set<string>): boolean {
    if (pod.unfollowed !== undefined && pod.revision !== undefined) {
      workload.unfollowed = pod.unfollowed;
      return false;
    }
    const revision = this.#revisions.get(pod.hosts) ?? this.select(pod.hosts).revision;
    this.#revisions.set(pod.hosts, revision);
    wanted.add(revision);
    // The resolvers of a pod with pod DNS follow the map.
    if (isByDns(pod.revision) || pod.revision === revision) return false;
    if (mode !== "live") return true;
    if (from !== "pod") workload.isLiveByDefault = true;
    return !CURRENT.includes(this.#agentOf(pod));
  }

  #agentOf(pod: PodFacts): AgentOfPod {
    const { observeAgents, client, log, now } = this.#deps;
    this.#agents ??= observeAgents?.({ client, log, now, onChange: this.#changed });
    return this.#agents?.of(pod) ?? "absent";
  }

  /** Whether the annotation of a listed workload may end the mode `live` of its pods. */
  #isUnread({ owner, listed, isLiveByDefault, read }: Workload): boolean {
    if (!listed || !isLiveByDefault || owner.unrestartable !== undefined) return false;
    return read === undefined || this.#deps.now() > read.at + READ_MS;
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
    const signature = `${to} ${revisions.join()} ${workload.onChange.mode}`;
    if (signature !== workload.signature) workload.decision = ITS_TURN;
    Object.assign(workload, { stale, to, signature });
  }

  /** An internal error at one pod or workload leaves that one out. */
  #guarded<T>(what: string, evaluate: () => T): T | undefined {
    try {
      return evaluate();
    } catch (error) {
      this.#deps.log.error({ code: "pod-failed", what: show(what) }, `left out: ${describeError(error)}`);
      return undefined;
    }
  }

  readonly #changed = (): void => {
    this.#hasChanged = true;
    this.#deps.onChange();
  };

  #informers(): ReadonlyArray<Pick<Informer<unknown>, "state" | "stop">> {
    return [this.#namespaces, ...this.#pods.informers];
  }
}
