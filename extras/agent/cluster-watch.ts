import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { pause } from "#lib/kube/time.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { RawPod } from "#lib/workloads/pods.ts";
import type { DaemonSetPoll } from "./daemon-set-poll.ts";
import type { HostsReconciler } from "./hosts-reconciler.ts";
import { type NodeNamespaces, watchNodeNamespaces } from "./node-namespaces.ts";
import { createProjection, type NodePod } from "./node-pod.ts";
import { spreadMs } from "./spread.ts";

/** The agent's watches of the cluster. */
export interface ClusterWatch {
  readonly pods: Informer<NodePod>;
  readonly namespaces: NodeNamespaces;
  readonly synced: boolean;
  /** Milliseconds since the most silent of the watches last received or tried anything. */
  readonly inactiveMs: number;
  stop(): Promise<void>;
}

type WatchingClient = Pick<KubeClient, "get" | "stream">;

/**
 * Agents that start to read per second when many start together. The pods of a node with 500 names each are 2 MB, and
 * so is a map of 50,000 names. On 5,000 nodes, the agents take 100 s at the install and 10 s in a rolling update by
 * 10 %. A single agent starts at once.
 */
const STARTS_PER_SECOND = 50;
const MAX_START_MS = 100_000;
/**
 * Agents per second that replace their watch of namespaces, when pods keep arriving in new ones. Until then, the
 * agent reads a new namespace with a GET (`owner-annotations.ts`).
 */
const WATCHES_PER_SECOND = 20;
const MIN_WATCH_MS = 5_000;
const MAX_WATCH_MS = 4 * 60_000;

/**
 * Watches the pods of a node and their namespaces. Starts after a random delay, so that many agents do not read
 * together.
 */
export function watchCluster(deps: {
  readonly client: WatchingClient;
  readonly node: string;
  readonly follower: Pick<HostsReconciler, "putPod" | "removePod" | "noteAll">;
  readonly maxNames: number;
  readonly daemonSet: Pick<DaemonSetPoll, "read" | "starting" | "agents">;
  readonly random: () => number;
  readonly log: Logger;
}): ClusterWatch {
  const { node, follower, maxNames, daemonSet, random, log } = deps;
  const stopping = new AbortController();
  const turn = daemonSet.read.then(() =>
    pause(random() * spreadMs(daemonSet.starting, STARTS_PER_SECOND, MAX_START_MS), stopping.signal),
  );
  const client = readingAfter(turn, deps.client);
  const pods = watchObjects<NodePod, RawPod>({
    client,
    path: corePath("pods"),
    fieldSelector: `spec.nodeName=${node}`,
    project: createProjection(maxNames),
    onChange({ before, after }) {
      if (before !== undefined && before.uid !== after?.uid) follower.removePod(before.uid);
      if (after === undefined) return;
      follower.putPod(after);
      if (pods.state.synced && !after.ended) namespaces.follow(after.namespace);
    },
    onSynced: () => namespaces.follow(),
    log,
  });
  const namespaces = watchNodeNamespaces({
    client,
    log,
    names: () => new Set([...pods.objects().values()].flatMap(({ ended, namespace }) => (ended ? [] : [namespace]))),
    pauseMs: () => Math.max(MIN_WATCH_MS, spreadMs(daemonSet.agents, WATCHES_PER_SECOND, MAX_WATCH_MS)),
    onChange: () => follower.noteAll(),
  });
  return {
    pods,
    namespaces,
    get synced() {
      return pods.state.synced && namespaces.synced;
    },
    get inactiveMs() {
      return Math.max(pods.state.inactiveMs, namespaces.inactiveMs);
    },
    async stop() {
      const stopped = Promise.all([pods.stop(), namespaces.stop()]);
      stopping.abort();
      await stopped;
    },
  };
}

/** Wraps the client: its reads wait until `turn` resolves. */
function readingAfter(turn: Promise<void>, client: WatchingClient): WatchingClient {
  return {
    get: async (path, query, options) => {
      await turn;
      return await client.get(path, query, options);
    },
    stream: async (path, query, options) => {
      await turn;
      return await client.stream(path, query, options);
    },
  };
}
