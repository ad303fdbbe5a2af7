import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import { startPromptTimer } from "#lib/kube/time.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { type NamespaceFacts, namespaceFacts } from "#lib/workloads/namespaces.ts";

/** The Namespaces of the node's pods. */
export interface NodeNamespaces {
  /** Whether the namespaces of the pods that were there at the start are known. */
  readonly synced: boolean;
  /** Milliseconds since a watch last received or tried anything; 0 while nothing is watched. */
  readonly inactiveMs: number;
  /** What a Namespace says; undefined: it is not watched, or does not exist. */
  get(name: string): NamespaceFacts | undefined;
  /** A pod is in this namespace; undefined: the pods of the node are known now. */
  follow(namespace?: string): void;
  stop(): Promise<void>;
}

/**
 * The API server gives each Namespace this label, and lets nobody change it (kubernetes/kubernetes,
 * pkg/apis/core/v1/defaults.go, SetDefaults_Namespace).
 */
const NAME_LABEL = "kubernetes.io/metadata.name";
/**
 * The most namespaces of a watch: they stand in its URL. The kubelet runs 110 pods by default, but anybody can bind
 * pods to a node. Up to this number, namespaces whose pods have gone stay, so that jobs do not restart the watch.
 */
const MAX_NAMES = 128;

/**
 * Watches the Namespaces of the node's pods by their names. When a pod arrives in another namespace, a watch with that
 * name too replaces the watch as soon as its list is complete.
 */
export function watchNodeNamespaces(deps: {
  readonly client: Pick<KubeClient, "get" | "stream">;
  readonly log: Logger;
  /** The namespaces of the node's pods. */
  readonly names: () => Iterable<string>;
  /** The least time between two watches, milliseconds. */
  readonly pauseMs: () => number;
  /** The first list is complete, or the facts of a Namespace changed. */
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
      fromCache: true,
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
      // Without an answer, the watch so far goes on.
      if (!(await Promise.race([listed.promise, stopping.promise]))) return;
      void current?.stop();
      current = next;
      next = undefined;
    }
    synced = true;
    onChange();
  };
  const reconciler = new Reconciler({ reconcile: replace, pauseMs, startTimer: startPromptTimer });
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
