import { removeLive } from "../hostmap/live-hosts.ts";
import { createSelector, type SelectedHosts } from "../hostmap/select-hosts.ts";
import type { PublishedMap, Reason } from "../hostmap/types.ts";
import { type ReconcileResult, Reconciler } from "../kube/reconciler.ts";
import { startPromptTimer, steadyNow } from "../kube/time.ts";
import type { Logger } from "../telemetry/log.ts";
import type { DirectoryWatches } from "./directory-watches.ts";
import { onText } from "./file-bytes.ts";
import type { HostsFiles, HostsFileUpdate } from "./hosts-files.ts";
import { createLivePlans } from "./live-plans.ts";
import type { NodePod } from "./node-pod.ts";
import { createReadBackoff, type ReadBackoff } from "./read-backoff.ts";

/** Whether a pod follows the map by its hosts file. `unknown`: the facts are not known yet, so nothing is done. */
export type LiveMode = "live" | "no" | "unknown";

interface HostsReconcilerDeps {
  readonly files: HostsFiles;
  readonly watches: Pick<DirectoryWatches, "add" | "remove">;
  readonly judge: (pod: NodePod) => LiveMode;
  /** The most names that a pod gets. */
  readonly maxNames: number;
  readonly log: Logger;
  /** Called after every round, with the state then. */
  readonly onRound: (state: HostsReconcilerState) => void;
  /** A monotonic clock in milliseconds; replaced in tests only. */
  readonly now?: () => number;
}

/** How far the pods of the node have come. */
export interface HostsReconcilerState {
  /** The map revision that every following pod has; undefined while one of them does not. */
  readonly applied: string | undefined;
  readonly live: number;
  /** Files written since the start. */
  readonly written: number;
  /** Pods that should follow and cannot, with the reason. */
  readonly problems: ReadonlyArray<{ readonly pod: string; readonly reason: Reason }>;
  /** Duration of the last round with a new map, in milliseconds: from its arrival to the last file. */
  readonly roundMs: number;
}

interface Tracked {
  pod: NodePod;
  following: LiveMode | undefined;
  /** The map revision that the file was written for, and the pod as it was then. */
  applied: string | undefined;
  appliedTo: NodePod | undefined;
  stamp: string | undefined;
  problem: Reason | undefined;
  /** Whether the file was searched for a block that an earlier agent may have left. */
  clean: boolean;
  readonly throttle: ReadBackoff;
  timer: NodeJS.Timeout | undefined;
}

/** Problems that may be gone when the file is checked again. */
const AGAIN: ReadonlySet<string> = new Set(["file-empty", "file-busy", "write-failed"]);
/** The longest time that a round runs before it yields to the event loop, in milliseconds. */
const SLICE_MS = 8;

/**
 * Reconciles the hosts files of one node's pods with the map. Every event notes the pods that it concerns; a round updates the noted
 * pods, one after the other.
 */
export class HostsReconciler {
  readonly #deps: HostsReconcilerDeps;
  readonly #now: () => number;
  readonly #pods = new Map<string, Tracked>();
  readonly #noted = new Set<string>();
  readonly #plans = createLivePlans();
  #select: ((annotation: string | undefined) => SelectedHosts) | undefined;
  #revision: string | undefined;
  /** A round starts in the same iteration of the event loop: events that arrive together share a round, and nothing waits for a timer. */
  readonly #reconciler = new Reconciler({ reconcile: () => this.#workSlice(), startTimer: startPromptTimer });
  #written = 0;
  #arrived: number | undefined;
  #roundMs = 0;

  constructor(deps: HostsReconcilerDeps) {
    this.#deps = deps;
    this.#now = deps.now ?? steadyNow;
  }

  setMap(map: PublishedMap): void {
    this.#arrived = this.#now();
    const select = createSelector(map, this.#deps.maxNames);
    const selections = new Map<string | undefined, SelectedHosts>();
    this.#revision = map.revision;
    this.#plans.clear();
    this.#select = (annotation) => {
      const selected = selections.get(annotation) ?? select(annotation);
      selections.set(annotation, selected);
      return selected;
    };
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

  /** A fact has changed that the mode of any pod may depend on. */
  noteAll(): void {
    for (const uid of this.#pods.keys()) this.#noted.add(uid);
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

  /** Checks every file that should have our block: missed events and failures are retried. */
  sweep(): void {
    for (const [uid, { following, stamp, clean }] of this.#pods) {
      if (following === "no" && clean) continue;
      if (following !== "live" || this.#deps.files.stamp(uid) !== stamp) this.#noted.add(uid);
    }
    if (this.#noted.size > 0) this.#reconciler.enqueue();
  }

  /** Whether no file of the node has a block of ours. */
  get isClean(): boolean {
    return this.#noted.size === 0 && [...this.#pods.values()].every(({ clean }) => clean);
  }

  /** Resolves when nothing is left to do. */
  async settled(): Promise<void> {
    await this.#reconciler.idle();
  }

  stop(): void {
    void this.#reconciler.stop();
    for (const { timer } of this.#pods.values()) clearTimeout(timer);
    this.#pods.clear();
    this.#noted.clear();
  }

  get state(): HostsReconcilerState {
    const live = [...this.#pods.values()].filter(({ following }) => following === "live");
    const unknown = [...this.#pods.values()].some(
      ({ following }) => following === "unknown" || following === undefined,
    );
    const behind = unknown || live.some(({ applied }) => applied !== this.#revision);
    return {
      applied: behind ? undefined : this.#revision,
      live: live.length,
      written: this.#written,
      problems: live.flatMap(({ pod, problem }) =>
        problem === undefined ? [] : [{ pod: `${pod.namespace}/${pod.name}`, reason: problem }],
      ),
      roundMs: this.#roundMs,
    };
  }

  #note(uid: string): void {
    this.#noted.add(uid);
    this.#reconciler.enqueue();
  }

  /** One slice of a round. The next slice follows after the process has handled its pending I/O. */
  #workSlice(): ReconcileResult | undefined {
    const until = this.#now() + SLICE_MS;
    for (let uid = first(this.#noted); uid !== undefined; uid = first(this.#noted)) {
      this.#noted.delete(uid);
      const tracked = this.#pods.get(uid);
      if (tracked !== undefined) this.#bringUpToDate(uid, tracked);
      if (this.#noted.size > 0 && this.#now() >= until) return { requeueAfter: 0 };
    }
    if (this.#arrived !== undefined) this.#roundMs = this.#now() - this.#arrived;
    this.#arrived = undefined;
    this.#deps.onRound(this.state);
    return undefined;
  }

  #bringUpToDate(uid: string, tracked: Tracked): void {
    tracked.following = tracked.pod.ended ? "no" : this.#deps.judge(tracked.pod);
    if (tracked.following === "live") this.#follow(uid, tracked);
    else if (tracked.following === "no") this.#leave(uid, tracked);
  }

  #follow(uid: string, tracked: Tracked): void {
    if (this.#select === undefined || this.#isCurrent(uid, tracked)) return;
    this.#deps.watches.add(uid);
    const selected = this.#select(tracked.pod.hosts);
    const outcome = this.#deps.files.update(uid, (content) =>
      this.#plans.apply(content, tracked.pod.managedAliases, selected),
    );
    this.#take(uid, tracked, outcome);
    tracked.clean = false;
    if (outcome.kind === "refused") return;
    tracked.applied = this.#revision;
    tracked.appliedTo = tracked.pod;
  }

  /** Whether neither the file nor anything that it depends on has changed since it was written. */
  #isCurrent(uid: string, { pod, applied, appliedTo, stamp, problem }: Tracked): boolean {
    if (applied !== this.#revision || appliedTo === undefined || problem !== undefined) return false;
    if (appliedTo.managedAliases !== pod.managedAliases || appliedTo.hosts !== pod.hosts) return false;
    return stamp !== undefined && this.#deps.files.stamp(uid) === stamp;
  }

  #leave(uid: string, tracked: Tracked): void {
    if (tracked.clean) return;
    this.#deps.watches.remove(uid);
    this.#take(
      uid,
      tracked,
      this.#deps.files.update(
        uid,
        onText((text) => removeLive(text, this.#plans.aliases(tracked.pod.managedAliases))),
      ),
    );
    tracked.applied = undefined;
    // A file that is not the kubelet's cannot have a block of ours; the others are retried.
    tracked.clean = tracked.problem === undefined || !AGAIN.has(tracked.problem.code);
  }

  #take(uid: string, tracked: Tracked, outcome: HostsFileUpdate): void {
    tracked.stamp = "stamp" in outcome ? outcome.stamp : undefined;
    if (outcome.kind === "written") this.#written += 1;
    const problem = outcome.kind === "refused" ? outcome.reason : undefined;
    const pod = `${tracked.pod.namespace}/${tracked.pod.name}`;
    if (tracked.following === "live" && problem !== undefined) this.#refused(uid, tracked, problem);
    else if (tracked.problem !== undefined) this.#deps.log.info({ pod }, "hosts file: follows again");
    tracked.problem = problem;
  }

  #refused(uid: string, tracked: Tracked, problem: Reason): void {
    const pod = `${tracked.pod.namespace}/${tracked.pod.name}`;
    if (tracked.problem?.code !== problem.code && problem.code !== "file-empty")
      this.#deps.log.warn({ pod, ...problem }, "hosts file: not written");
    // Another process is writing it at the moment, so it is checked again soon.
    if (problem.code === "file-empty" || problem.code === "file-busy") setImmediate(() => this.touched(uid));
  }
}

function track(pod: NodePod, now: () => number): Tracked {
  return {
    pod,
    following: undefined,
    applied: undefined,
    appliedTo: undefined,
    stamp: undefined,
    problem: undefined,
    clean: false,
    throttle: createReadBackoff(now),
    timer: undefined,
  };
}

function first(set: ReadonlySet<string>): string | undefined {
  for (const item of set) return item;
  return undefined;
}
