import { describeError, statusOf } from "../errors/errors.ts";
import { RESTARTED_KEY } from "../hostmap/metadata-keys.ts";
import type { KubeClient } from "../kube/client.ts";
import { resourcePath } from "../kube/paths.ts";
import { type Informer, watchObjects } from "../kube/watch.ts";
import type { Logger } from "../telemetry/log.ts";
import { WORKLOAD_KINDS, type WorkloadKind, workloadPath } from "./workload-kinds.ts";
import type { WorkloadState } from "./workload-state.ts";
import { type RawWorkload, workloadState } from "./workload-state.ts";

/** One word for all changes of ours, so that `kubectl get -o yaml --show-managed-fields` tells them from anybody else's. */
const FIELD_MANAGER = "switchback-restart";

/** What a patch came to. `conflict`: somebody else was first, look again. Anything less certain is thrown. */
export type PatchResult = "patched" | "conflict" | "gone" | "forbidden";

type ParentOf = { kind: string; name: string } | "none";

interface Watched {
  readonly kinds: ReadonlyMap<WorkloadKind, Informer<WorkloadState>>;
  readonly replicaSets: Informer<ParentOf>;
}

/** The workloads of the listed namespaces, as they are, and the one patch that is made to them. */
export class WorkloadInformers {
  readonly #client: KubeClient;
  readonly #log: Logger;
  readonly #watched: ReadonlyMap<string, Watched>;
  /** Answers to our own patches, until the watch tells the same or something newer. */
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
    // Without the ReplicaSets it is not certain whose pods they are.
    if (!watcher?.state.synced || !watched?.replicaSets.state.synced) return "unknown";
    return this.#patched.get(key) ?? watcher.objects().get(`${namespace}/${name}`) ?? "absent";
  }

  parentOf(namespace: string, replicaSet: string): ParentOf | undefined {
    return this.#watched.get(namespace)?.replicaSets.objects().get(`${namespace}/${replicaSet}`);
  }

  /** As `kubectl rollout restart` does it, but only of the workload as it was seen: a newer one is a conflict. */
  async patch(key: string, stamp: string, signal: AbortSignal): Promise<PatchResult> {
    const { namespace, kind, name } = partsOf(key);
    const state = this.stateOf(key);
    if (typeof state === "string") return "gone";
    const path = workloadPath(namespace, kind as WorkloadKind, name);
    try {
      const body = restartPatch(stamp, state);
      const options = { fieldManager: FIELD_MANAGER, signal };
      const answer = await this.#client.mergePatch<RawWorkload>(path, body, options);
      this.#patched.set(key, workloadState(kind as WorkloadKind, answer));
      return "patched";
    } catch (error) {
      const refused = REFUSALS[statusOf(error) ?? 0];
      if (refused === undefined) throw error;
      this.#log.warn({ workload: key, outcome: refused }, `not restarted: ${describeError(error)}`);
      return refused;
    }
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
    const replicaSets = watchObjects<ParentOf>({
      ...common,
      path: resourcePath({ group: "apps", version: "v1", namespace, resource: "replicasets" }),
      metadataOnly: true,
      project: ({ metadata }) => {
        const owner = metadata?.ownerReferences?.find(({ controller }) => controller === true);
        return owner?.apiVersion.startsWith("apps/") ? { kind: owner.kind, name: owner.name } : "none";
      },
      onChange,
    });
    return { kinds: new Map(kinds), replicaSets };
  }
}

/** What becomes of a patch that the API server did not make. */
const REFUSALS: Readonly<Record<number, PatchResult>> = {
  409: "conflict",
  404: "gone",
  403: "forbidden",
  422: "forbidden",
};

/** The patch of a restart, with the preconditions of exactly this object in this state. */
export function restartPatch(
  stamp: string,
  { uid, resourceVersion }: { uid: string; resourceVersion: string },
): object {
  const template = { metadata: { annotations: { [RESTARTED_KEY]: stamp } } };
  return { metadata: { uid, resourceVersion }, spec: { template } };
}

/** `shop/Deployment/web` -> its parts. */
export function partsOf(key: string): { namespace: string; kind: string; name: string } {
  const [namespace = "", kind = "", name = ""] = key.split("/");
  return { namespace, kind, name };
}
