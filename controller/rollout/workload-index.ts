import { hash } from "node:crypto";
import type { ObjectChange } from "#lib/kube/cache.ts";
import { timeSlices } from "#lib/kube/time.ts";
import type { NamespaceFacts } from "#lib/workloads/namespaces.ts";
import type { Owner } from "#lib/workloads/owners.ts";
import type { PodFacts } from "#lib/workloads/pods.ts";
import { partsOf } from "#lib/workloads/workload-keys.ts";
import { Cohorts, type Decisions, type Member, type RolloutCounts, staleSinceOf, standingOf } from "./cohorts.ts";
import { NodeUpdaters, type UpdaterCounts } from "./node-updaters.ts";
import {
  type ClusterView,
  classOf,
  type GroupSummary,
  groupOf,
  onChangeLevels,
  ownerOfOptedIn,
  type PodClass,
  summarize,
  type WorkloadGroup,
} from "./observe-workloads.ts";
import type { ObservedWorkload } from "./reconciler.ts";
import type { RestartRules } from "./restart-limits.ts";
import { checkEligibility } from "./restart-preconditions.ts";
import type { RolloutDecision } from "./workload-facts.ts";

/** The opted-in pods of one owner. */
interface Workload extends Member {
  readonly key: string;
  owner: Owner;
  /** By `namespace/name`. */
  readonly pods: Map<string, PodFacts>;
  /** Nodes with its pods in mode `live`. */
  nodes: ReadonlySet<string>;
  /** The last observation for a decision, and the summary that it was made with. */
  observed: { readonly by: object; readonly workload: ObservedWorkload } | undefined;
}

interface IndexDeps {
  readonly view: ClusterView;
  /** All watched pods, by `namespace/name`. */
  readonly pods: () => ReadonlyMap<string, PodFacts>;
  readonly rules: Pick<RestartRules, "updaterMs">;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** Longer annotations are replaced by their hash in a signature. */
const MAX_LITERAL = 64;
/** Maximum number of stored hashes. */
const MAX_HASHES = 4_096;
/** Maximum number of pods per step while the pods of a namespace are searched. */
const SCANNED_AT_ONCE = 1_000;

/**
 * The opted-in pods by workload, updated by changes: the cost of a change depends only on what it affects. Workloads
 * with equal pods form one cohort, which is evaluated once per map. Changes are only stored when they arrive;
 * `refresh` evaluates them.
 */
export class WorkloadIndex {
  readonly #view: ClusterView;
  readonly #deps: IndexDeps;
  readonly #cohorts: Cohorts;
  readonly #updaters: NodeUpdaters<Workload>;
  readonly #classView: Pick<ClusterView, "fallback" | "updaterOf">;
  readonly #workloads = new Map<string, Workload>();
  readonly #byNamespace = new Map<string, Set<Workload>>();
  readonly #workloadOf = new Map<string, Workload>();
  /** Workloads that have to be evaluated again. */
  readonly #changed = new Set<Workload>();
  /** Namespaces that opted in or out, so their pods have to be found. */
  readonly #rescan = new Set<string>();
  /** Namespaces in which the owner of a ReplicaSet may have changed. */
  readonly #reown = new Set<string>();
  readonly #hashes = new Map<string, string>();
  #updatersChanged = false;

  constructor(deps: IndexDeps) {
    const { view, rules, now } = deps;
    this.#deps = deps;
    this.#view = view;
    this.#cohorts = new Cohorts({ summarize: (classes) => summarize(classes, view), rules, now });
    this.#updaters = new NodeUpdaters(view.updaterOf);
    this.#classView = { fallback: view.fallback, updaterOf: (pod) => this.#updaters.of(pod).updater };
  }

  /** Call this when a pod was added, changed or deleted. */
  changePod({ key, after }: ObjectChange<PodFacts>): void {
    const before = this.#workloadOf.get(key);
    const owner = after && this.#ownerOf(after);
    if (before !== undefined && before.key !== owner?.key) this.#takeOut(key, before);
    if (after === undefined || owner === undefined) return;
    const workload = this.#workloads.get(owner.key) ?? this.#add(owner);
    workload.pods.set(key, after);
    this.#workloadOf.set(key, workload);
    this.#changed.add(workload);
  }

  changeNamespace({ key, before, after }: ObjectChange<NamespaceFacts>): void {
    if (before?.inject !== after?.inject) this.#rescan.add(key);
    for (const workload of this.#byNamespace.get(key) ?? []) this.#changed.add(workload);
  }

  /** Call this when a workload or ReplicaSet has changed; without `key`, any of the namespace may have changed. */
  changeWorkload({ namespace, key }: { readonly namespace: string; readonly key: string | undefined }): void {
    const workload = key === undefined ? undefined : this.#workloads.get(key);
    if (workload !== undefined) this.#changed.add(workload);
    // While the owner of a ReplicaSet is not known, pods may belong to the ReplicaSet itself.
    if (key === undefined || partsOf(key).kind === "ReplicaSet") this.#reown.add(namespace);
  }

  /** Call this when an updater reports something new, becomes silent, or reports again. */
  changeUpdaters(): void {
    this.#updatersChanged = true;
  }

  changeMap(): void {
    this.#cohorts.outdate();
  }

  /** Evaluates all changes, in slices. After it resolves, everything is evaluated until the caller yields. */
  async refresh(): Promise<void> {
    const sliceEnd = timeSlices();
    while (this.#isOutdated()) {
      for (const _ of this.#steps()) {
        const ended = sliceEnd();
        if (ended !== undefined) await ended;
      }
    }
    this.#cohorts.expire();
  }

  /** Counts of opted-in workloads and pods, as of the last `refresh`. `decisions` has the individual decisions. */
  counts(decisions: Decisions): RolloutCounts {
    return this.#cohorts.counts(decisions);
  }

  /** The updaters of the nodes with pods in mode `live`, by their last report. */
  get updaters(): UpdaterCounts {
    return this.#updaters.count();
  }

  /** When something becomes due without a change, milliseconds since 1970. */
  get nextDue(): number {
    return this.#cohorts.nextDue;
  }

  /** The workloads that need individual decisions, and those with these keys, even without pods. */
  observe(keys: Iterable<string>): ObservedWorkload[] {
    const observed = new Map<string, ObservedWorkload>();
    const add = (key: string) => {
      const workload = observed.has(key) ? undefined : this.#observe(key);
      if (workload !== undefined) observed.set(key, workload);
    };
    for (const { members } of this.#cohorts.open) for (const { key } of members) add(key);
    for (const key of keys) add(key);
    return [...observed.values()];
  }

  /** All facts about one workload; undefined if it has no opted-in pods. */
  groupOf(key: string): WorkloadGroup | undefined {
    const workload = this.#workloads.get(key);
    if (workload?.cohort === undefined) return undefined;
    return this.#guarded(key, () => groupOf(workload.owner, [...workload.pods.values()], this.#view));
  }

  /** The decision about a workload. `decisions` has the individual decisions. */
  decisionOf(key: string, decisions: Decisions): RolloutDecision | undefined {
    const workload = this.#workloads.get(key);
    if (workload?.cohort?.decision === undefined) return decisions.get(key);
    const { rules, now } = this.#deps;
    const { namespace, unrestartable } = workload.owner;
    const { permitted, summary } = workload.cohort;
    const { updaters, onChange } = summary;
    const stale = { length: summary.stale };
    const staleSince = staleSinceOf(workload) ?? now();
    const facts = { namespace, unrestartable, permitted, mode: onChange.mode, updaters, staleSince, stale };
    return checkEligibility(facts, rules, now());
  }

  /** Whether a workload has opted-in pods that could be evaluated. */
  has(key: string): boolean {
    return this.#workloads.get(key)?.cohort !== undefined;
  }

  /** The summaries of workloads, without looking at their pods. Workloads without opted-in pods are left out. */
  summariesOf(keys: Iterable<string>): ReadonlyMap<string, GroupSummary> {
    const summaries = new Map<string, GroupSummary>();
    for (const key of keys) {
      const summary = this.#workloads.get(key)?.cohort?.summary;
      if (summary !== undefined) summaries.set(key, summary);
    }
    return summaries;
  }

  /** Workloads that are stuck, or whose pods lack names: at most `limit`, and `preferred` ones first. */
  notable(preferred: Iterable<string>, limit: number, decisions: Decisions): ReadonlySet<string> {
    const keys = new Set<string>();
    const isNotable = (member: Member | undefined) =>
      member?.cohort !== undefined &&
      (member.cohort.summary.overCap !== undefined || standingOf(member, decisions) === "stuck");
    for (const key of preferred) if (isNotable(this.#workloads.get(key))) keys.add(key);
    for (const member of this.#cohorts.notable()) {
      if (keys.size >= limit) break;
      if (isNotable(member)) keys.add(member.key);
    }
    return keys;
  }

  /** Opted-in workloads by urgency: stuck, stale, all others. The lists are not sorted. */
  byUrgency(decisions: Decisions, isWanted: (key: string) => boolean): readonly (readonly string[])[] {
    const lists: [string[], string[], string[]] = [[], [], []];
    for (const workload of this.#workloads.values()) {
      if (workload.cohort === undefined || !isWanted(workload.key)) continue;
      const isStale = workload.cohort.summary.stale > 0;
      const standing = isStale ? standingOf(workload, decisions) : "in-step";
      lists[standing === "in-step" ? 2 : standing === "stuck" ? 0 : 1].push(workload.key);
    }
    return lists;
  }

  #isOutdated(): boolean {
    const sizes = [this.#rescan.size, this.#reown.size, this.#changed.size, this.#cohorts.outdated.size];
    return this.#updatersChanged || sizes.some((size) => size > 0);
  }

  /** Does all pending work. Yields after each step, and a step takes far less than a slice. */
  *#steps(): Iterable<void> {
    yield* this.#findPods();
    if (this.#updatersChanged) {
      this.#updatersChanged = false;
      for (const workload of this.#updaters.refresh()) this.#changed.add(workload);
      yield;
    }
    for (const workload of this.#changed) {
      this.#changed.delete(workload);
      for (const { hosts } of workload.pods.values()) {
        if (hosts === undefined) continue;
        this.#view.choose(hosts);
        yield;
      }
      this.#sign(workload);
      yield;
    }
    for (const cohort of this.#cohorts.outdated) {
      for (const { of } of cohort.classes) {
        this.#view.choose(of.hosts);
        yield;
      }
      this.#cohorts.evaluate(cohort);
      yield;
    }
  }

  /** Assigns pods to their owners again, in namespaces whose opt-in or ReplicaSets have changed. */
  *#findPods(): Iterable<void> {
    for (const namespace of this.#reown) {
      this.#reown.delete(namespace);
      for (const { pods } of [...(this.#byNamespace.get(namespace) ?? [])]) {
        for (const [key, after] of [...pods]) this.changePod({ key, after });
        yield;
      }
    }
    if (this.#rescan.size === 0) return;
    const namespaces = new Set(this.#rescan);
    this.#rescan.clear();
    let scanned = 0;
    for (const [key, after] of this.#deps.pods()) {
      if (namespaces.has(after.namespace)) this.changePod({ key, after });
      if (++scanned % SCANNED_AT_ONCE === 0) yield;
    }
  }

  #add(owner: Owner): Workload {
    const { key, namespace } = owner;
    const member = { cohort: undefined, staleSince: 0, stalePeriod: 0 };
    const workload: Workload = { ...member, key, owner, pods: new Map(), nodes: NO_NODES, observed: undefined };
    this.#workloads.set(key, workload);
    const others = this.#byNamespace.get(namespace);
    if (others === undefined) this.#byNamespace.set(namespace, new Set([workload]));
    else others.add(workload);
    return workload;
  }

  #takeOut(pod: string, workload: Workload): void {
    workload.pods.delete(pod);
    this.#workloadOf.delete(pod);
    this.#changed.add(workload);
  }

  #drop(workload: Workload): void {
    const { key, owner } = workload;
    this.#workloads.delete(key);
    const others = this.#byNamespace.get(owner.namespace);
    others?.delete(workload);
    if (others?.size === 0) this.#byNamespace.delete(owner.namespace);
  }

  #leave(workload: Workload): void {
    this.#cohorts.remove(workload);
    this.#updaters.place(workload, NO_NODES);
  }

  /** Puts a workload into the cohort of those with equal pods, or into none if it cannot be evaluated. */
  #sign(workload: Workload): void {
    workload.observed = undefined;
    const [first] = workload.pods.values();
    const signed =
      first &&
      this.#guarded(workload.key, () => {
        workload.owner = ownerOfOptedIn(first, this.#view) ?? workload.owner;
        return this.#signatureOf(workload);
      });
    if (signed === undefined) {
      this.#leave(workload);
      if (first === undefined) this.#drop(workload);
      return;
    }
    const { signature, classes, nodes } = signed;
    const { namespace, unrestartable } = workload.owner;
    const permitted = this.#view.isListed(namespace);
    const name = `${permitted}${literal(unrestartable?.code)}${signature}`;
    this.#cohorts.move(workload, name, () => ({ classes: classes(), permitted, unrestartable }));
    this.#updaters.place(workload, nodes);
  }

  /** All facts that decide about a workload's pods, as text. */
  #signatureOf(workload: Workload) {
    const levels = onChangeLevels(workload.owner, this.#view);
    const counted = new Map<string, { of: PodClass; count: number }>();
    const nodes = new Set<string>();
    for (const pod of workload.pods.values()) {
      const of = classOf(pod, levels, this.#classView);
      const isLive = of.onChange.mode === "live";
      const token = isLive ? this.#updaters.of(pod).token : undefined;
      if (isLive && pod.node !== undefined) nodes.add(pod.node);
      const text = [this.#shortened(pod.hosts), pod.revision, pod.onChange, token].map(literal).join("");
      const same = counted.get(text);
      if (same === undefined) counted.set(text, { of, count: 1 });
      else same.count += 1;
    }
    const parts = [...counted].map(([text, { count }]) => `${count}x${text}`);
    const signature = `${literal(levels.workload)}${literal(levels.namespace)}${parts.join("")}`;
    return { signature, classes: () => [...counted.values()], nodes };
  }

  /** Replaces a long annotation by its hash. */
  #shortened(text: string | undefined): string | undefined {
    if (text === undefined || text.length <= MAX_LITERAL) return text;
    let digest = this.#hashes.get(text);
    if (digest === undefined) {
      if (this.#hashes.size >= MAX_HASHES) this.#hashes.clear();
      digest = hash("sha256", text, "base64");
      this.#hashes.set(text, digest);
    }
    return `#${digest}`;
  }

  #observe(key: string): ObservedWorkload | undefined {
    const workload = this.#workloads.get(key);
    if (workload === undefined) {
      const owner = { ...partsOf(key), key, unrestartable: undefined };
      return this.#guarded(key, () => groupOf(owner, [], this.#view).observed);
    }
    if (workload.cohort === undefined) return undefined;
    const by = workload.cohort.summary;
    let observed = workload.observed?.by === by ? workload.observed.workload : this.groupOf(key)?.observed;
    if (observed === undefined) return undefined;
    const state = this.#view.stateOf(key);
    if (observed.state !== state) observed = { ...observed, state };
    workload.observed = { by, workload: observed };
    return observed;
  }

  #ownerOf(pod: PodFacts): Owner | undefined {
    return this.#guarded(`the pod ${pod.namespace}/${pod.name}`, () => ownerOfOptedIn(pod, this.#view));
  }

  /** Calls `evaluate`. An error affects at most one workload: it is reported, and the result is undefined. */
  #guarded<T>(what: string, evaluate: () => T): T | undefined {
    try {
      return evaluate();
    } catch (error) {
      this.#view.onError(what, error);
      return undefined;
    }
  }
}

const NO_NODES: ReadonlySet<string> = new Set();

/** The text with its length, so that concatenated texts are unambiguous. */
function literal(text: string | undefined): string {
  return text === undefined ? "-" : `${text.length}:${text}`;
}
