import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { type NamespaceFacts, namespaceFacts } from "#lib/workloads/namespaces.ts";

/** The Namespaces of the node's pods. */
export interface NodeNamespaces {
  /** Whether the namespaces of the pods that were there at the start are known. */
  readonly synced: boolean;
  /** Milliseconds since a watch last received or tried anything; 0 while nothing is watched. */
  readonly inactiveMs: number;
  /** Returns the facts of a Namespace. Undefined if it is not watched or does not exist. */
  get(name: string): NamespaceFacts | undefined;
  /** Reports that a pod is in this namespace. Without a namespace: the pods of the node are known now. */
  follow(namespace?: string): void;
  stop(): Promise<void>;
}

/**
 * The API server gives each Namespace this label, and lets nobody change it (kubernetes/kubernetes,
 * pkg/apis/core/v1/defaults.go, SetDefaults_Namespace).
 */
const NAME_LABEL = "kubernetes.io/metadata.name";
/**
 * Maximum number of namespaces in a watch, because its URL lists them. The kubelet runs 110 pods by default, but
 * anybody can bind pods to a node. Up to this number, namespaces without pods stay in the watch, so that jobs do not
 * restart it.
 */
const MAX_NAMES = 128;

/**
 * Watches the Namespaces of the node's pods by name. When a pod arrives in a new namespace, a new watch starts that
 * includes it. It replaces the old watch when its list is complete.
 */
export function watchNodeNamespaces(deps: {
  readonly client: Pick<KubeClient, "get" | "stream">;
  readonly log: Logger;
  /** The namespaces of the node's pods. */
  readonly names: () => Iterable<string>;
  /** Minimum time between two watches, in milliseconds. */
  readonly pauseMs: () => number;
  /** Called when a list is complete, or when the facts of a Namespace change. */
  readonly onChange: () => void;
}): NodeNamespaces {
  const { client, log, names, pauseMs, onChange } = deps;
  let watched: ReadonlySet<string> = new Set();
  let current: Informer<NamespaceFacts> | undefined;
  let next: Informer<NamespaceFacts> | undefined;
  let synced = false;
  const stopping = Promise.withResolvers<boolean>();

  const start = (onSynced: () => void): Informer<NamespaceFacts> => {
    const informer = watchObjects<NamespaceFacts>({
      client,
      path: corePath("namespaces"),
      labelSelector: `${NAME_LABEL} in (${[...watched].join(",")})`,
      metadataOnly: true,
      project: namespaceFacts,
      onChange({ before, after }) {
        const isSame = before?.inject === after?.inject && before?.onChange === after?.onChange;
        if (informer === current && !isSame) onChange();
      },
      onSynced,
      log,
    });
    return informer;
  };
  const replace = async (): Promise<undefined> => {
    const present = new Set([...names()].slice(0, MAX_NAMES));
    if (synced && present.isSubsetOf(watched)) return;
    if (present.size > 0) {
      const all = watched.union(present);
      watched = all.size > MAX_NAMES ? present : all;
      const listed = Promise.withResolvers<boolean>();
      next = start(() => listed.resolve(true));
      // Until there is an answer, the old watch continues.
      if (!(await Promise.race([listed.promise, stopping.promise]))) return;
      void current?.stop();
      current = next;
      next = undefined;
    }
    synced = true;
    onChange();
  };
  const reconciler = new Reconciler({ reconcile: replace, pauseMs });
  return {
    get synced() {
      return synced;
    },
    get inactiveMs() {
      return Math.max(current?.state.inactiveMs ?? 0, next?.state.inactiveMs ?? 0);
    },
    get: (name) => current?.objects().get(name),
    follow(namespace) {
      if (namespace === undefined || !watched.has(namespace)) reconciler.enqueue();
    },
    async stop() {
      const informers = [current, next];
      stopping.resolve(false);
      await Promise.all([reconciler.stop(), ...informers.map((each) => each?.stop())]);
    },
  };
}
