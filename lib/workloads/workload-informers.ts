import { describeError } from "#lib/errors/errors.ts";
import type { ObjectChange } from "#lib/kube/cache.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { isReplicaSet, type ReplicaSetOwner, replicaSetOwner } from "./owners.ts";
import type { PodFacts } from "./pods.ts";
import { restartWorkload } from "./restart.ts";
import { partsOf } from "./workload-keys.ts";
import { isWorkloadKind, replicaSetPath, type WorkloadKind, workloadPath } from "./workload-kinds.ts";
import { type RawWorkload, type WorkloadState, workloadState } from "./workload-state.ts";

/** Field manager of the controller's restarts. `kubectl get -o yaml --show-managed-fields` shows it. */
const FIELD_MANAGER = "switchback-restart";

/**
 * `conflict`: the workload changed meanwhile, or is not known now. The caller should look again. An uncertain outcome
 * is thrown.
 */
export type PatchResult = "patched" | "conflict" | "gone" | "forbidden";

/** A change of one workload or ReplicaSet, or of everything in its namespace. */
export interface WorkloadChange {
  readonly namespace: string;
  /** `namespace/Kind/name`. Undefined: unknown state in this namespace became known, or known state became unknown. */
  readonly key: string | undefined;
}

/** A watch that is opened when somebody needs it. */
interface Watched<P> {
  readonly informer: Informer<P>;
  /** Number of observed pods that objects of this watch may own. */
  pods: number;
  /** Ends the watch when it is no longer needed. */
  timer: NodeJS.Timeout | undefined;
}

/** A watch is kept this long after its last pod is gone, or after the last request for a state. */
export const KEEP_MS = 5 * 60_000;

/**
 * Informers of the workloads in the listed namespaces, and the one patch that we make to workloads. A kind is watched
 * in a namespace while observed pods there have an owner of that kind, or somebody asks for one. A watch takes 100 KB
 * of memory.
 */
export class WorkloadInformers {
  readonly #client: KubeClient;
  readonly #log: Logger;
  readonly #listed: ReadonlySet<string>;
  /** Watches of workloads, by `namespace/Kind`. */
  readonly #kinds = new Map<string, Watched<WorkloadState>>();
  /** Watches of ReplicaSets, by namespace. */
  readonly #replicaSets = new Map<string, Watched<ReplicaSetOwner>>();
  /** States from answers to patches. An entry stays until the watch reports the workload again. */
  readonly #patched = new Map<string, WorkloadState>();
  readonly #ending = new Set<Promise<void>>();
  #onChange: (change: WorkloadChange) => void = () => {};
  #stopped = false;

  constructor(deps: { client: KubeClient; log: Logger; namespaces: readonly string[] }) {
    this.#client = deps.client;
    this.#log = deps.log;
    this.#listed = new Set(deps.namespaces);
  }

  /** `onChange` is called for each change of a workload or ReplicaSet. */
  follow(onChange: (change: WorkloadChange) => void): void {
    this.#onChange = onChange;
  }

  has(namespace: string): boolean {
    return this.#listed.has(namespace);
  }

  /** An observed pod was added, has changed, or is gone. */
  changePod({ before, after }: ObjectChange<PodFacts>): void {
    if (after !== undefined) this.#count(after, 1);
    if (before !== undefined) this.#count(before, -1);
  }

  /** `unknown` until the first list is complete. `forbidden` while the API server refuses the list. */
  stateOf(key: string): WorkloadState | "unknown" | "forbidden" | "absent" {
    const { namespace, kind, name } = partsOf(key);
    if (!this.#listed.has(namespace) || !isWorkloadKind(kind) || this.#stopped) return "unknown";
    const watched = this.#watchKind(namespace, kind);
    this.#release(watched, () => this.#dropKind(namespace, kind));
    // Without the ReplicaSets, the owners of the pods are uncertain.
    const replicaSets = kind === "Deployment" ? this.#watchReplicaSets(namespace) : this.#replicaSets.get(namespace);
    if (replicaSets !== undefined) this.#release(replicaSets, () => this.#dropReplicaSets(namespace));
    const unread = [watched, replicaSets].filter((each) => each?.informer.state.synced === false);
    if (unread.some((each) => each?.informer.state.problem?.code === "forbidden")) return "forbidden";
    if (unread.length > 0) return "unknown";
    return this.#patched.get(key) ?? watched.informer.objects().get(`${namespace}/${name}`) ?? "absent";
  }

  parentOf(namespace: string, replicaSet: string): ReplicaSetOwner | undefined {
    return this.#replicaSets.get(namespace)?.informer.objects().get(`${namespace}/${replicaSet}`);
  }

  /**
   * Restarts the workload only in the version of the decision. Any other version is a conflict. Throws if the outcome
   * is uncertain.
   */
  async patch(
    key: string,
    { stamp, resourceVersion, signal }: { stamp: string; resourceVersion: string; signal: AbortSignal },
  ): Promise<PatchResult> {
    const { namespace, kind, name } = partsOf(key);
    const state = this.stateOf(key);
    if (state === "absent") return "gone";
    // The state was known when the restart was decided.
    if (state === "unknown" || state === "forbidden") return "conflict";
    const workload = { namespace, kind: kind as WorkloadKind, name };
    const outcome = await restartWorkload(
      this.#client,
      workload,
      { ...state, resourceVersion },
      {
        stamp,
        fieldManager: FIELD_MANAGER,
        signal,
      },
    );
    if (outcome.result === "restarted") {
      this.#patched.set(key, workloadState(workload.kind, outcome.workload));
      return "patched";
    }
    // The workload was changed after the decision, and now it must not be restarted.
    const result = outcome.result === "refused" ? "conflict" : outcome.result;
    const why = outcome.result === "refused" ? outcome.reason.text : describeError(outcome.error);
    this.#log.warn({ workload: key, outcome: result }, `not restarted: ${why}`);
    return result;
  }

  get inactiveMs(): number {
    return Math.max(0, ...this.#all().map(({ informer }) => informer.state.inactiveMs));
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    for (const { timer } of this.#all()) clearTimeout(timer);
    await Promise.all([...this.#all().map(({ informer }) => informer.stop()), ...this.#ending]);
  }

  #all(): Array<Watched<unknown>> {
    return [...this.#kinds.values(), ...this.#replicaSets.values()];
  }

  #count({ namespace, owner }: PodFacts, by: 1 | -1): void {
    if (owner === undefined || !this.#listed.has(namespace) || this.#stopped) return;
    const { kind } = owner;
    if (isReplicaSet(owner)) {
      this.#countKind(namespace, "Deployment", by);
      const replicaSets = this.#watchReplicaSets(namespace);
      replicaSets.pods += by;
      this.#release(replicaSets, () => this.#dropReplicaSets(namespace));
    } else if (isWorkloadKind(kind)) this.#countKind(namespace, kind, by);
  }

  #countKind(namespace: string, kind: WorkloadKind, by: 1 | -1): void {
    const watched = this.#watchKind(namespace, kind);
    watched.pods += by;
    this.#release(watched, () => this.#dropKind(namespace, kind));
  }

  /** Starts the timer of a watch without pods, or stops the timer of one with pods. */
  #release(watched: Watched<unknown>, drop: () => void): void {
    clearTimeout(watched.timer);
    watched.timer = watched.pods > 0 || this.#stopped ? undefined : setTimeout(drop, KEEP_MS);
  }

  #dropKind(namespace: string, kind: WorkloadKind): void {
    const key = `${namespace}/${kind}`;
    const watched = this.#kinds.get(key);
    this.#kinds.delete(key);
    this.#end(namespace, watched);
    for (const workload of this.#patched.keys()) if (workload.startsWith(`${key}/`)) this.#patched.delete(workload);
  }

  #dropReplicaSets(namespace: string): void {
    const watched = this.#replicaSets.get(namespace);
    this.#replicaSets.delete(namespace);
    this.#end(namespace, watched);
  }

  #end(namespace: string, watched: Watched<unknown> | undefined): void {
    if (watched === undefined) return;
    const ending = watched.informer.stop();
    this.#ending.add(ending);
    void ending.then(() => this.#ending.delete(ending));
    this.#onChange({ namespace, key: undefined });
  }

  #watchKind(namespace: string, kind: WorkloadKind): Watched<WorkloadState> {
    return upsert(this.#kinds, `${namespace}/${kind}`, () =>
      watchObjects<WorkloadState, RawWorkload>({
        ...this.#common(namespace),
        path: workloadPath(namespace, kind),
        project: (raw) => workloadState(kind, raw),
        onChange: ({ key }) => {
          const workload = keyOf(key, kind);
          this.#patched.delete(workload);
          this.#onChange({ namespace, key: workload });
        },
      }),
    );
  }

  #watchReplicaSets(namespace: string): Watched<ReplicaSetOwner> {
    return upsert(this.#replicaSets, namespace, () =>
      watchObjects<ReplicaSetOwner>({
        ...this.#common(namespace),
        path: replicaSetPath(namespace),
        metadataOnly: true,
        project: ({ metadata }) => replicaSetOwner(metadata),
        onChange: ({ key }) => this.#onChange({ namespace, key: keyOf(key, "ReplicaSet") }),
      }),
    );
  }

  #common(namespace: string) {
    const onSynced = () => this.#onChange({ namespace, key: undefined });
    return { client: this.#client, log: this.#log, onSynced };
  }
}

/** Returns the watch with this key. Opens it if it is missing. */
function upsert<P>(watches: Map<string, Watched<P>>, key: string, open: () => Informer<P>): Watched<P> {
  const known = watches.get(key);
  if (known !== undefined) return known;
  const watched = { informer: open(), pods: 0, timer: undefined };
  watches.set(key, watched);
  return watched;
}

/** `shop/web` -> `shop/Deployment/web`. */
function keyOf(objectKey: string, kind: string): string {
  return objectKey.replace("/", `/${kind}/`);
}
