import { describeError } from "../errors/errors.ts";
import type { KubeClient } from "../kube/client.ts";
import { type Informer, watchObjects } from "../kube/watch.ts";
import type { Logger } from "../telemetry/log.ts";
import { type ReplicaSetOwner, replicaSetOwner } from "./owners.ts";
import { restartWorkload } from "./restart.ts";
import { partsOf } from "./workload-keys.ts";
import { replicaSetPath, WORKLOAD_KINDS, type WorkloadKind, workloadPath } from "./workload-kinds.ts";
import { type RawWorkload, type WorkloadState, workloadState } from "./workload-state.ts";

/** Marks the controller's restarts in `kubectl get -o yaml --show-managed-fields`. */
const FIELD_MANAGER = "switchback-restart";

/** `conflict`: the workload changed meanwhile, or is not known now; to be looked at again. An uncertain outcome is thrown instead. */
export type PatchResult = "patched" | "conflict" | "gone" | "forbidden";

interface Watched {
  readonly kinds: ReadonlyMap<WorkloadKind, Informer<WorkloadState>>;
  readonly replicaSets: Informer<ReplicaSetOwner>;
}

/** Informers of the workloads in the listed namespaces, and the one patch that is made to them. */
export class WorkloadInformers {
  readonly #client: KubeClient;
  readonly #log: Logger;
  readonly #watched: ReadonlyMap<string, Watched>;
  /** Answers to patches, until the watch brings the same version or a newer one. */
  readonly #patched = new Map<string, WorkloadState>();

  constructor(deps: { client: KubeClient; log: Logger; namespaces: readonly string[]; onChange: () => void }) {
    this.#client = deps.client;
    this.#log = deps.log;
    this.#watched = new Map(deps.namespaces.map((namespace) => [namespace, this.#watch(namespace, deps.onChange)]));
  }

  has(namespace: string): boolean {
    return this.#watched.has(namespace);
  }

  /** `unknown` until the first list, and where there is no right to it. */
  stateOf(key: string): WorkloadState | "unknown" | "absent" {
    const { namespace, kind, name } = partsOf(key);
    const watched = this.#watched.get(namespace);
    const watcher = watched?.kinds.get(kind as WorkloadKind);
    // Without the ReplicaSets the pods' owners are uncertain.
    if (!watcher?.state.synced || !watched?.replicaSets.state.synced) return "unknown";
    return this.#patched.get(key) ?? watcher.objects().get(`${namespace}/${name}`) ?? "absent";
  }

  parentOf(namespace: string, replicaSet: string): ReplicaSetOwner | undefined {
    return this.#watched.get(namespace)?.replicaSets.objects().get(`${namespace}/${replicaSet}`);
  }

  /** Restarts the workload in the state that the informer has: a newer one is a conflict. Throws when the outcome is uncertain. */
  async patch(key: string, stamp: string, signal: AbortSignal): Promise<PatchResult> {
    const { namespace, kind, name } = partsOf(key);
    const state = this.stateOf(key);
    if (state === "absent") return "gone";
    // What is not known now was known when the restart was decided on.
    if (state === "unknown") return "conflict";
    const workload = { namespace, kind: kind as WorkloadKind, name };
    const outcome = await restartWorkload(this.#client, workload, state, {
      stamp,
      fieldManager: FIELD_MANAGER,
      signal,
    });
    if (outcome.result === "restarted") {
      this.#patched.set(key, workloadState(workload.kind, outcome.workload));
      return "patched";
    }
    // The refusal came after the decision.
    const result = outcome.result === "refused" ? "conflict" : outcome.result;
    const why = outcome.result === "refused" ? outcome.reason.text : describeError(outcome.error);
    this.#log.warn({ workload: key, outcome: result }, `not restarted: ${why}`);
    return result;
  }

  get inactiveMs(): number {
    return Math.max(0, ...this.#all().map(({ state }) => state.inactiveMs));
  }

  async stop(): Promise<void> {
    await Promise.all(this.#all().map((watcher) => watcher.stop()));
  }

  #all(): Array<Informer<unknown>> {
    return [...this.#watched.values()].flatMap(({ kinds, replicaSets }) => [...kinds.values(), replicaSets]);
  }

  #watch(namespace: string, onChange: () => void): Watched {
    const common = { client: this.#client, log: this.#log, onSynced: onChange };
    const kinds = WORKLOAD_KINDS.map((kind) => {
      const watcher = watchObjects<WorkloadState, RawWorkload>({
        ...common,
        path: workloadPath(namespace, kind),
        project: (raw) => workloadState(kind, raw),
        onChange: ({ key }) => {
          this.#patched.delete(key.replace("/", `/${kind}/`));
          onChange();
        },
      });
      return [kind, watcher] as const;
    });
    const replicaSets = watchObjects<ReplicaSetOwner>({
      ...common,
      path: replicaSetPath(namespace),
      metadataOnly: true,
      project: ({ metadata }) => replicaSetOwner(metadata),
      onChange,
    });
    return { kinds: new Map(kinds), replicaSets };
  }
}
