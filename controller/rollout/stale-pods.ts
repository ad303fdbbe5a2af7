import { shortHash } from "#hostmap/hash.ts";
import { show } from "#hostmap/hostnames.ts";
import { getOrAdd } from "#hostmap/multi-map.ts";
import { effectiveOnChange } from "#hostmap/on-change.ts";
import type { OptInRules } from "#hostmap/opt-in.ts";
import { isByDns } from "#hostmap/pod-dns-marks.ts";
import { createSelector } from "#hostmap/pod-selection.ts";
import { optInRules, restartNamespaces } from "#lib/config/opt-in.ts";
import type { Subscription } from "#lib/documents/map-reader.ts";
import { isMap } from "#lib/documents/published-map.ts";
import { describeError } from "#lib/errors/errors.ts";
import { timeSlices } from "#lib/kube/time.ts";
import type { Informer } from "#lib/kube/watch.ts";
import { isOptedIn, type NamespaceFacts, watchNamespaces } from "#lib/workloads/namespaces.ts";
import { ownerOf } from "#lib/workloads/owners.ts";
import type { PodFacts } from "#lib/workloads/pods.ts";
import { WatchedPods } from "#lib/workloads/watched-pods.ts";
import { checkFacts } from "./may-restart.ts";
import { type Agents, ITS_TURN, type RestarterDeps, Workload } from "./workload.ts";

type StalePodsDeps = Pick<RestarterDeps, "client" | "config" | "maps" | "observeAgents" | "log" | "now">;

/** How long the on-change annotation of a workload with live pods is used before it is read again. */
const READ_MS = 300_000;
/** With agents, the pods are evaluated at least this often: an agent may have become silent. */
const SILENCE_MS = 15_000;
/** Maximum number of names whose last holders are remembered. */
const MAX_HOLDERS = 100_000;

/**
 * The opted-in pods of the cluster by workload. A pod is stale if its revision is not that of its selection. After a
 * change, one pass evaluates all of them.
 */
export class StalePods {
  /** The workloads with opted-in pods, by `namespace/Kind/name`. */
  readonly workloads = new Map<string, Workload>();
  /** The workload whose restart the others wait for. */
  underWay: string | undefined;
  /** Returns the names of the published map that a selection gets. Undefined: no map is known yet. */
  select: ReturnType<typeof createSelector> | undefined;
  /** By name that pods get or got: the namespace that has it, or had it when it left the map. */
  readonly holders = new Map<string, string>();
  readonly #deps: StalePodsDeps;
  readonly #rules: OptInRules;
  readonly #listed: ReadonlySet<string>;
  readonly #namespaces: Informer<NamespaceFacts>;
  readonly #pods: WatchedPods;
  readonly #maps: Subscription;
  #hasChanged = true;
  #passedAt = 0;
  /** Undefined until a pod is in mode `live`. */
  agents: Agents | undefined;
  /** By the value of `switchback.dev/hosts`: each is computed once per map. */
  #revisions = new Map<string | undefined, string>();

  constructor(deps: StalePodsDeps) {
    const { client, config, log } = deps;
    this.#deps = deps;
    this.#rules = optInRules(config);
    this.#listed = new Set(restartNamespaces(config));
    const watch = { client, log, onSynced: this.#changed, onChange: this.#changed };
    this.#pods = new WatchedPods({ ...watch, withNodes: deps.observeAgents !== undefined, listed: [...this.#listed] });
    this.#namespaces = watchNamespaces(watch);
    this.#maps = deps.maps.start((offer) => {
      if (!isMap(offer)) return;
      const select = createSelector(offer, config.inject.maxNames);
      this.select = (hosts) => {
        const selected = select(hosts);
        if (this.holders.size > MAX_HOLDERS) this.holders.clear();
        for (const name of selected.names) this.holders.set(name, selected.holderOf(name) ?? "");
        return selected;
      };
      this.#changed();
    });
  }

  /** Why the state is not known yet: a list that was not received is not an empty list. */
  get unknown(): string | undefined {
    const missing = this.#informers().find(({ state }) => !state.synced)?.state;
    if (missing === undefined) return this.select === undefined ? "no map is published yet" : undefined;
    return `the pods of the cluster are not known yet${missing.problem ? `: ${missing.problem.text}` : ""}`;
  }

  /** The longest time, in milliseconds, since a watch last received or tried anything. */
  get inactiveMs(): number {
    const others = [this.#maps.inactiveMs?.() ?? 0, this.agents?.inactiveMs ?? 0];
    return Math.max(...others, ...this.#informers().map(({ state }) => state.inactiveMs));
  }

  /** Evaluates all pods, in slices, if anything has changed. What changes meanwhile waits for the next call. */
  async refresh(): Promise<void> {
    const now = this.#deps.now();
    const isDue = this.#hasChanged || now >= this.#passedAt + (this.agents === undefined ? READ_MS : SILENCE_MS);
    if (this.select === undefined || !isDue) return;
    this.#hasChanged = false;
    this.#passedAt = now;
    // Tenants choose the texts of their pods' `hosts`.
    this.#revisions = new Map();
    const sliceEnd = timeSlices();
    for (const [key, { workload, pods }] of await this.#group(sliceEnd)) {
      try {
        this.evaluate(workload, pods);
      } catch (error) {
        this.#deps.log.error({ code: "internal-error", what: show(key) }, `left out: ${describeError(error)}`);
      }
      await sliceEnd();
    }
  }

  /** The opted-in pods of each workload. The workloads of the last time may have none. */
  async #group(sliceEnd: ReturnType<typeof timeSlices>) {
    const group = (workload: Workload) => ({ workload, pods: [] as PodFacts[] });
    const found = new Map([...this.workloads].map(([key, workload]) => [key, group(workload)]));
    for (const pod of this.#pods.all()) {
      // A terminating pod does not count: its replacement does.
      if (!pod.terminating && isOptedIn(pod, this.#namespaces.objects().get(pod.namespace), this.#rules)) {
        const owner = ownerOf(pod);
        getOrAdd(found, owner.key, () => group(new Workload(owner, this.#listed.has(owner.namespace)))).pods.push(pod);
      }
      await sliceEnd();
    }
    return found;
  }

  /** Evaluates one workload. `pods`: its opted-in pods; default: those of the last time. */
  evaluate(workload: Workload, pods = workload.pods): void {
    const { config, now } = this.#deps;
    const { owner, read } = workload;
    const namespace = this.#namespaces.objects().get(owner.namespace)?.onChange;
    const levels = { workload: read?.onChange, namespace, fallback: config.pods.onChange };
    const onChangeOf = (pod: PodFacts | undefined) => effectiveOnChange({ pod: pod?.onChange, ...levels });
    const wanted = new Set<string>();
    Object.assign(workload, { pods, unfollowed: undefined });
    const stale = pods.filter((pod) => this.#isStale(pod, onChangeOf(pod), workload, wanted));
    const to = shortHash([...wanted].sort().join());
    const isNew = workload.stale.length === 0;
    if (isNew) workload.staleSince = now();
    if (isNew || to !== workload.to) Object.assign(workload, { since: now(), decision: ITS_TURN });
    Object.assign(workload, { stale, to, onChange: onChangeOf(stale[0] ?? pods[0]) });
    const fixed = this.#isUnread(workload) ? undefined : checkFacts(workload);
    if (fixed !== undefined || !workload.isQueued) workload.decision = fixed ?? ITS_TURN;
    workload.isQueued = fixed === undefined;
    if (pods.length === 0) this.workloads.delete(owner.key);
    else this.workloads.set(owner.key, workload);
  }

  async stop(): Promise<void> {
    await Promise.all([this.#maps.stop(), this.agents?.stop(), ...this.#informers().map((each) => each.stop())]);
  }

  /** Whether a pod lacks what a new pod would get. A pod in mode `live` is current while its agent is alive. */
  #isStale(pod: PodFacts, { mode }: Workload["onChange"], workload: Workload, wanted: Set<string>): boolean {
    if (pod.unfollowed !== undefined && pod.revision !== undefined) {
      workload.unfollowed = pod.unfollowed;
      return false;
    }
    const revision = getOrAdd(this.#revisions, pod.hosts, () => this.select?.(pod.hosts).revision ?? "");
    wanted.add(revision);
    // The resolvers of a pod with pod DNS follow the map.
    if (isByDns(pod.revision) || pod.revision === revision) return false;
    if (mode !== "live") return true;
    // The first such pod starts the observation of agents.
    const { observeAgents, client, log, now } = this.#deps;
    this.agents ??= observeAgents?.({ client, log, now, onChange: this.#changed });
    return !this.agents?.isCurrent(pod);
  }

  /** Whether the annotation of a listed workload may have changed what its pods' mode is. */
  #isUnread({ owner, listed, onChange: { mode, from }, read }: Workload): boolean {
    const dependsOnIt = from === "workload" || (mode === "live" && from !== "pod");
    if (!listed || !dependsOnIt || owner.unrestartable !== undefined) return false;
    return read === undefined || this.#deps.now() > read.at + READ_MS;
  }

  readonly #changed = (): void => {
    this.#hasChanged = true;
  };

  #informers(): ReadonlyArray<Pick<Informer<unknown>, "state" | "stop">> {
    return [this.#namespaces, ...this.#pods.informers];
  }
}
