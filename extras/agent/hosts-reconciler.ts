import { createSelector, type SelectedHosts } from "#hostmap/pod-selection.ts";
import type { HostAlias, PublishedMap, Reason } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import { type ReconcileResult, Reconciler } from "#lib/kube/reconciler.ts";
import { steadyNow } from "#lib/kube/time.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { DirectoryWatches } from "./directory-watches.ts";
import type { HostsFileUpdate } from "./hosts-file.ts";
import { hostsFileLimits } from "./hosts-file-limits.ts";
import type { HostsFiles } from "./hosts-files.ts";
import { holdsBlock } from "./live-hosts.ts";
import { createLivePlans, type LivePlans } from "./live-plans.ts";
import type { NodePod } from "./node-pod.ts";
import { PodQueue } from "./pod-queue.ts";
import { createReadBackoff, type ReadBackoff } from "./read-backoff.ts";

/**
 * Whether a pod follows the map through its hosts file. `unknown`: not all facts are known yet, so its file is not
 * changed.
 */
export type LiveMode = "live" | "no" | "unknown";

interface HostsReconcilerDeps {
  readonly files: HostsFiles;
  readonly watches: Pick<DirectoryWatches, "add" | "remove">;
  readonly decide: (pod: NodePod) => LiveMode;
  /**
   * Returns the names of the node's own hosts file. Pods on the host's network got a copy of that file when they
   * started. Undefined: the file should have no names. If the function is missing, the file never has names.
   */
  readonly inherited?: () => SelectedHosts | "unknown" | undefined;
  /** Maximum number of names that a pod gets. */
  readonly maxNames: number;
  readonly log: Logger;
  /** Called after every round with the current state. */
  readonly onRound: (state: HostsReconcilerState) => void;
  /** A monotonic clock in milliseconds; replaced in tests only. */
  readonly now?: () => number;
  /** The CPU time of this thread in milliseconds; replaced in tests only. */
  readonly cpu?: () => number;
}

/** Progress of the node's pods. */
export interface HostsReconcilerState {
  /**
   * Map revision that every following pod has. Undefined while a pod does not have it, or may follow but is not
   * decided yet.
   */
  readonly applied: string | undefined;
  /**
   * Pod revisions that every following pod with that selection has. Undefined until it is known which pods follow,
   * and which names they select.
   */
  readonly podRevisions: readonly string[] | undefined;
  readonly live: number;
  /** Files written since the start. */
  readonly written: number;
  /** Pods that should follow and cannot, with the reason. */
  readonly problems: ReadonlyArray<{ readonly pod: string; readonly reason: Reason }>;
  /** Duration of the last round with a new map, in milliseconds: from the arrival of the map to the last file. */
  readonly roundMs: number;
}

interface Tracked {
  pod: NodePod;
  following: LiveMode | undefined;
  /** Map revision that the pod was last compared with. */
  compared: string | undefined;
  /** Revision of the names that the pod selects from that map. */
  selected: string | undefined;
  /** Pod revision that the pod's file has, and the pod at the time of that write. */
  applied: string | undefined;
  appliedTo: NodePod | undefined;
  stamp: string | undefined;
  problem: Reason | undefined;
  /** Whether the file is known to have no block of ours. False at first: an earlier agent may have left one. */
  clean: boolean;
  /** CPU time of the pod's last update, in milliseconds. */
  costMs: number;
  readonly throttle: ReadBackoff;
  timer: NodeJS.Timeout | undefined;
}

/** Codes of problems that may be gone when the file is checked again. */
const AGAIN: ReadonlySet<string> = new Set(["file-empty", "file-busy", "write-failed"]);
/** The longest time that a round runs before it yields to the event loop, in milliseconds. */
const SLICE_MS = 8;
/**
 * Maximum number of names in all cached selections of a map. Anybody may annotate a pod with another selection, and
 * change it.
 */
const MAX_SELECTED_NAMES = 64_000;

/**
 * Reconciles the hosts files of one node's pods with the map. Every event queues the pods that it concerns. A round
 * updates the queued pods one after the other.
 */
export class HostsReconciler {
  readonly #deps: HostsReconcilerDeps;
  readonly #now: () => number;
  readonly #cpu: () => number;
  readonly #pods = new Map<string, Tracked>();
  readonly #queue = new PodQueue();
  readonly #plans: LivePlans;
  #select: ((annotation: string | undefined) => SelectedHosts) | undefined;
  #revision: string | undefined;
  /**
   * Starts a round in the same iteration of the event loop. Events that arrive together share a round, and none waits
   * for a timer.
   */
  readonly #reconciler = new Reconciler({ reconcile: () => this.#workSlice() });
  #written = 0;
  #arrived: number | undefined;
  #roundMs = 0;

  constructor(deps: HostsReconcilerDeps) {
    this.#deps = deps;
    this.#plans = createLivePlans(hostsFileLimits(deps.maxNames));
    this.#now = deps.now ?? steadyNow;
    this.#cpu = deps.cpu ?? threadCpuMs;
  }

  /** `map` is undefined when no pod needs the map. */
  setMap(map: PublishedMap | undefined): void {
    this.#plans.clear();
    this.#revision = map?.revision;
    if (map === undefined) {
      this.#select = undefined;
      return;
    }
    this.#arrived = this.#now();
    const { maxNames } = this.#deps;
    const select = createSelector(map, maxNames);
    const maxSelections = Math.ceil(MAX_SELECTED_NAMES / maxNames);
    const selections = new Map<string | undefined, SelectedHosts>();
    this.#select = (annotation) => {
      const existing = selections.get(annotation);
      if (existing !== undefined) return existing;
      const selected = select(annotation);
      if (selections.size >= maxSelections) selections.clear();
      selections.set(annotation, selected);
      return selected;
    };
    // Most pods have this selection. Compute it now: otherwise the first of them would be charged for it, and queued
    // later.
    this.#select(undefined).byAddress();
    this.noteAll();
  }

  putPod(pod: NodePod): void {
    const tracked = this.#pods.get(pod.uid);
    if (tracked === undefined) this.#pods.set(pod.uid, track(pod, this.#now));
    else tracked.pod = pod;
    this.#note(pod.uid);
  }

  removePod(uid: string): void {
    clearTimeout(this.#pods.get(uid)?.timer);
    this.#deps.watches.remove(uid);
    this.#pods.delete(uid);
    // The remaining pods may all have the newest revision now.
    this.#reconciler.enqueue();
  }

  /** Queues all pods, because a fact has changed that may affect any pod's mode. */
  noteAll(): void {
    for (const [uid, { costMs }] of this.#pods) this.#queue.add(uid, costMs);
    this.#reconciler.enqueue();
  }

  /** A pod's hosts file or directory has changed, possibly by our own write. */
  touched(uid: string): void {
    const tracked = this.#pods.get(uid);
    if (tracked?.following !== "live" || tracked.timer !== undefined) return;
    this.#deps.watches.add(uid);
    if (tracked.stamp !== undefined && this.#deps.files.stamp(uid) === tracked.stamp) return;
    tracked.timer = setTimeout(() => {
      tracked.timer = undefined;
      this.#note(uid);
    }, tracked.throttle.next());
  }

  /**
   * Checks every file that should have our block, to detect missed events and to retry failures. For the other pods,
   * decides again whether they follow: nothing else reports that the annotation of a workload has changed.
   */
  sweep(): void {
    for (const [uid, { following, stamp, costMs }] of this.#pods) {
      if (following !== "live" || this.#deps.files.stamp(uid) !== stamp) this.#queue.add(uid, costMs);
    }
    if (this.#queue.size > 0) this.#reconciler.enqueue();
  }

  /** Whether no pod's file on the node has a block of ours. */
  get isClean(): boolean {
    return this.#queue.size === 0 && [...this.#pods.values()].every(({ clean }) => clean);
  }

  /** Resolves when nothing is left to do. */
  async settled(): Promise<void> {
    await this.#reconciler.idle();
  }

  stop(): void {
    void this.#reconciler.stop();
    for (const { timer } of this.#pods.values()) clearTimeout(timer);
    this.#pods.clear();
    this.#queue.clear();
  }

  get state(): HostsReconcilerState {
    const live = [...this.#pods.values()].filter(({ following }) => following === "live");
    const unknown = [...this.#pods.values()].some(
      ({ following }) => following === "unknown" || following === undefined,
    );
    const isBehind = ({ compared, selected, applied }: Tracked) =>
      compared !== this.#revision || applied === undefined || applied !== selected;
    const behind = live.filter(isBehind);
    const missing = new Set(behind.map(({ selected }) => selected));
    const podRevisions = new Set(live.flatMap(({ selected = [] }) => selected)).difference(missing);
    return {
      applied: unknown || behind.length > 0 ? undefined : this.#revision,
      podRevisions: unknown || (live.length > 0 && this.#select === undefined) ? undefined : [...podRevisions],
      live: live.length,
      written: this.#written,
      problems: live.flatMap(({ pod, problem }) =>
        problem === undefined ? [] : [{ pod: `${pod.namespace}/${pod.name}`, reason: problem }],
      ),
      roundMs: this.#roundMs,
    };
  }

  #note(uid: string): void {
    this.#queue.add(uid, this.#pods.get(uid)?.costMs ?? 0);
    this.#reconciler.enqueue();
  }

  /** Runs one slice of a round. The next slice runs after the process has handled its pending I/O. */
  #workSlice(): ReconcileResult | undefined {
    const until = this.#now() + SLICE_MS;
    for (let uid = this.#queue.take(); uid !== undefined; uid = this.#queue.take()) {
      const tracked = this.#pods.get(uid);
      if (tracked !== undefined) this.#bringUpToDate(uid, tracked);
      if (this.#queue.size > 0 && this.#now() >= until) return { requeueAfter: 0 };
    }
    if (this.#arrived !== undefined) this.#roundMs = this.#now() - this.#arrived;
    this.#arrived = undefined;
    this.#deps.onRound(this.state);
    return undefined;
  }

  /** Updates one pod. A problem with the pod, or a bug of ours, affects only that pod. */
  #bringUpToDate(uid: string, tracked: Tracked): void {
    const began = this.#cpu();
    try {
      this.#follow(uid, tracked);
    } catch (error) {
      tracked.following = "live";
      tracked.applied = undefined;
      const text = `an unexpected error, please report it: ${describeError(error)}`;
      this.#take(uid, tracked, { kind: "refused", reason: { code: "internal-error", text } });
    }
    tracked.costMs = this.#cpu() - began;
  }

  #follow(uid: string, tracked: Tracked): void {
    tracked.following = tracked.pod.ended ? "no" : this.#deps.decide(tracked.pod);
    if (tracked.following === "live") this.#update(uid, tracked);
    if (tracked.following !== "no") return;
    const inherited = this.#inheritedBy(tracked.pod);
    if (inherited === undefined) this.#leave(uid, tracked);
    else if (inherited !== "unknown") this.#keepInherited(uid, tracked, inherited);
  }

  #inheritedBy({ hostNetwork, ended }: NodePod): SelectedHosts | "unknown" | undefined {
    return hostNetwork === true && !ended ? this.#deps.inherited?.() : undefined;
  }

  /** Updates a pod's copy of the node's block, because nothing else does. A pod without a copy gets none. */
  #keepInherited(uid: string, tracked: Tracked, inherited: SelectedHosts): void {
    const { applied, stamp, problem } = tracked;
    const isCurrent = applied === inherited.revision && problem === undefined && stamp !== undefined;
    if (isCurrent && this.#deps.files.stamp(uid) === stamp) return;
    const outcome = this.#deps.files.update(uid, (content) =>
      holdsBlock(content) ? this.#plans.apply(content, NO_ALIASES, inherited) : content,
    );
    this.#take(uid, tracked, outcome);
    tracked.clean = false;
    tracked.applied = outcome.kind === "refused" ? undefined : inherited.revision;
  }

  #update(uid: string, tracked: Tracked): void {
    if (this.#select === undefined) return;
    const selected = this.#select(tracked.pod.hosts);
    tracked.compared = this.#revision;
    tracked.selected = selected.revision;
    if (this.#isCurrent(uid, tracked)) return;
    this.#deps.watches.add(uid);
    const { refusal, managedAliases } = tracked.pod;
    const outcome: HostsFileUpdate =
      refusal === undefined
        ? this.#deps.files.update(uid, (content) => this.#plans.apply(content, managedAliases, selected))
        : { kind: "refused", reason: refusal };
    this.#take(uid, tracked, outcome);
    tracked.clean = false;
    if (outcome.kind === "refused") return;
    tracked.applied = selected.revision;
    tracked.appliedTo = tracked.pod;
  }

  /** Whether the file, and everything that it depends on, is unchanged since the last write. */
  #isCurrent(uid: string, { pod, selected, applied, appliedTo, stamp, problem }: Tracked): boolean {
    if (applied !== selected || appliedTo === undefined || problem !== undefined) return false;
    if (appliedTo.managedAliases !== pod.managedAliases) return false;
    return stamp !== undefined && this.#deps.files.stamp(uid) === stamp;
  }

  #leave(uid: string, tracked: Tracked): void {
    if (tracked.clean) return;
    this.#deps.watches.remove(uid);
    this.#take(
      uid,
      tracked,
      this.#deps.files.update(uid, (content) => this.#plans.remove(content, tracked.pod.managedAliases)),
    );
    tracked.applied = undefined;
    // A file that is not the kubelet's cannot have a block of ours. Other problems are retried.
    tracked.clean = tracked.problem === undefined || !AGAIN.has(tracked.problem.code);
  }

  #take(uid: string, tracked: Tracked, outcome: HostsFileUpdate): void {
    tracked.stamp = "stamp" in outcome ? outcome.stamp : undefined;
    if (outcome.kind === "written") this.#written += 1;
    const problem = outcome.kind === "refused" ? outcome.reason : undefined;
    const pod = `${tracked.pod.namespace}/${tracked.pod.name}`;
    if (tracked.following === "live") {
      if (problem !== undefined) this.#refused(uid, tracked, problem);
      else if (tracked.problem !== undefined) this.#deps.log.info({ pod }, "hosts file: follows again");
    }
    tracked.problem = problem;
  }

  #refused(uid: string, tracked: Tracked, problem: Reason): void {
    const pod = `${tracked.pod.namespace}/${tracked.pod.name}`;
    if (tracked.problem?.code !== problem.code && problem.code !== "file-empty")
      this.#deps.log.warn({ pod, ...problem }, "hosts file: not written");
    // Another process is writing the file, so check it again soon.
    if (problem.code === "file-empty" || problem.code === "file-busy") setImmediate(() => this.touched(uid));
  }
}

const NO_ALIASES: readonly HostAlias[] = [];

function track(pod: NodePod, now: () => number): Tracked {
  return {
    pod,
    following: undefined,
    compared: undefined,
    selected: undefined,
    applied: undefined,
    appliedTo: undefined,
    stamp: undefined,
    problem: undefined,
    clean: false,
    costMs: 0,
    throttle: createReadBackoff(now),
    timer: undefined,
  };
}

function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}
