import { join } from "node:path";
import type { Config } from "#lib/config/schema.ts";
import type { MapReader } from "#lib/documents/map-reader.ts";
import { describeError, SwitchbackError } from "#lib/errors/errors.ts";
import { type Health, type HealthServer, livenessOf, startHealthServer } from "#lib/http/listen.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { steadyNow } from "#lib/kube/time.ts";
import { collectGarbage } from "#lib/process/collect-garbage.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { type ClusterWatch, watchCluster } from "./cluster-watch.ts";
import { agentSettings, RENEW_MS } from "./config.ts";
import { type DaemonSetPoll, pollDaemonSet } from "./daemon-set-poll.ts";
import { watchDirectories } from "./directory-watches.ts";
import { hostsFileLimits } from "./hosts-file-limits.ts";
import { type HostsFiles, openHostsFiles } from "./hosts-files.ts";
import { HostsReconciler, type HostsReconcilerState, type LiveMode } from "./hosts-reconciler.ts";
import { AgentLeaseWriter } from "./lease-writer.ts";
import { createLiveMode } from "./live-mode.ts";
import { followOnDemand, type MapOnDemand } from "./map-on-demand.ts";
import { agentMetrics } from "./metrics.ts";
import type { NodeHostsReport } from "./node-hosts-report.ts";
import { type RunningNodeHosts, runNodeHosts } from "./node-hosts-run.ts";
import type { NodePod } from "./node-pod.ts";
import { createOwnerAnnotations, type OwnerAnnotations } from "./owner-annotations.ts";
import { spreadMs } from "./spread.ts";

interface AgentDeps {
  readonly client: Pick<KubeClient, "get" | "stream" | "apply" | "delete">;
  readonly maps: MapReader;
  readonly log: Logger;
  /** Name of our pod. */
  readonly identity: string;
  /** The node whose pods this agent follows. */
  readonly node: string;
  /** Where the node's hosts file is mounted. Default: where the chart mounts it. */
  readonly nodeHostsPath?: string | undefined;
  /** Collects garbage; replaced only in tests. */
  readonly collect?: () => void;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

export interface RunningAgent {
  readonly healthPort: number;
  readonly state: HostsReconcilerState;
  /**
   * Stops the agent. Removes all blocks if our DaemonSet is being deleted. Otherwise the hosts files stay unchanged,
   * so that no pod notices an upgrade.
   */
  stop(): Promise<void>;
}

/**
 * Lease writes per second of all agents together, after a change of the map. Their renewals cost as much at any time.
 */
const LEASES_PER_SECOND = 200;
/**
 * Agents per second that read the annotations of their workloads again. A node has two dozen workloads, with a GET or
 * two each.
 */
const OWNERS_PER_SECOND = 20;
/**
 * Maximum time that is added to the 5 minutes for which an annotation is kept. With 20 % of jitter, the sum is less
 * than the 10 minutes that a restart waits for an agent (`agentSilenceSeconds`).
 */
const MAX_OWNERS_MS = 3 * 60_000;

/** How often every hosts file is checked, even without an event: the kernel drops events of a burst. */
const SWEEP_MS = 30_000;

/** Runs the agent of one node. Throws `config-invalid` if the kubelet's directory does not exist. */
export async function runAgent(config: Config, deps: AgentDeps): Promise<RunningAgent> {
  const { client, log, node } = deps;
  const { maxNames } = config.inject;
  const { kubeletRoot, namespace } = agentSettings(config);
  const podsDirectory = join(kubeletRoot, "pods");
  const files = open(podsDirectory, maxNames);
  const watches = watchDirectories(podsDirectory, (uid) => follower.touched(uid), log);
  const again = () => follower.noteAll();
  const { random } = Math;
  const owners = createOwners(deps, () => daemonSet.agents, again);
  const daemonSet = pollDaemonSet({ client, namespace, random, log, onChange: again });
  const lease = createLease(namespace, deps, daemonSet);
  let left: Promise<void> = Promise.resolve();
  const nodeHosts = runNodeHosts(config, daemonSet, log, { path: deps.nodeHostsPath });
  const { inherited } = nodeHosts;
  const decide = (pod: NodePod): LiveMode => (daemonSet.uninstalling ? "no" : liveModeOf(pod));
  const { collect = collectGarbage } = deps;
  let isCollected = false;
  const onRound = (state: HostsReconcilerState): void => {
    nodeHosts.reconcile();
    if (!cluster.synced) return;
    const needsMap = state.live > 0 || nodeHosts.wanted;
    map.need(needsMap);
    if (!daemonSet.uninstalling) {
      // Until a map has arrived, the report of the previous agent stays.
      if (!needsMap || map.hasMap) lease.report({ ...state, nodeHosts: nodeHosts.report });
    } else if (follower.isClean && nodeHosts.isClean)
      left = lease.remove().catch((error) => log.warn({ error: describeError(error) }, "lease: not deleted"));
  };
  const follower = new HostsReconciler({ files, watches, decide, inherited, maxNames, log, onRound });
  const map = createMap(deps, { follower, nodeHosts });
  const cluster = watchCluster({ client, node, follower, maxNames, daemonSet, random, log });
  const { onChangeOf, namespaceOf } = owners;
  const liveModeOf = createLiveMode({ config, namespaces: cluster.namespaces, onChangeOf, namespaceOf });
  const sweep = setInterval(() => {
    follower.sweep();
    onRound(follower.state);
    owners.tidy();
    // The first lists leave much garbage.
    if (cluster.synced && !isCollected) collect();
    isCollected = cluster.synced;
  }, SWEEP_MS);
  const health = await startHealth(config, { map, cluster, follower, nodeHosts });
  log.info({ node, podsDirectory, healthPort: health.port }, "following the map");
  const stop = async (): Promise<void> => {
    clearInterval(sweep);
    if (await daemonSet.askNow()) follower.noteAll();
    await follower.settled();
    // The names may have been withdrawn. The agent that replaces this one then does not see the file.
    nodeHosts.reconcile();
    await left;
    await Promise.all([map.stop(), daemonSet.stop(), cluster.stop()]);
    lease.stop();
    watches.close();
    follower.stop();
    files.close();
    nodeHosts.close();
    await health.close();
  };
  return {
    healthPort: health.port,
    get state() {
      return follower.state;
    },
    stop,
  };
}

function createOwners({ client, log }: AgentDeps, agents: () => number, onLearned: () => void): OwnerAnnotations {
  const keepMs = () => spreadMs(agents(), OWNERS_PER_SECOND, MAX_OWNERS_MS);
  return createOwnerAnnotations({ client, log, now: steadyNow, random: Math.random, spreadMs: keepMs, onLearned });
}

/** The parts of a running agent that its probes and metrics show. */
interface Shown {
  readonly map: MapOnDemand;
  readonly cluster: ClusterWatch;
  readonly follower: Pick<HostsReconciler, "state">;
  readonly nodeHosts: RunningNodeHosts;
}

async function startHealth(config: Config, { map, cluster, follower, nodeHosts }: Shown): Promise<HealthServer> {
  return await startHealthServer({
    address: config.address,
    port: agentSettings(config).healthPort,
    live: () => nodeHosts.restart() ?? livenessOf(Math.max(map.inactiveMs, cluster.inactiveMs)),
    ready: () => readiness(cluster, map, follower.state, nodeHosts.report),
    registry: agentMetrics(() => ({ ...follower.state, nodeHosts: nodeHosts.report })),
  });
}

function createLease(namespace: string, deps: AgentDeps, daemonSet: DaemonSetPoll): AgentLeaseWriter {
  return new AgentLeaseWriter({
    ...deps,
    namespace,
    renewMs: RENEW_MS,
    spreadMs: () => spreadMs(daemonSet.agents, LEASES_PER_SECOND, RENEW_MS),
    random: Math.random,
    daemonSet: () => daemonSet.daemonSet,
  });
}

/** Users of a map. */
interface MapUsers {
  readonly follower: HostsReconciler;
  readonly nodeHosts: RunningNodeHosts;
}

function createMap({ maps, log }: AgentDeps, { follower, nodeHosts }: MapUsers): MapOnDemand {
  return followOnDemand({
    maps,
    setMap(map) {
      nodeHosts?.setMap(map);
      follower.setMap(map);
    },
    onProblem: (problem) => log.warn({ ...problem }, "map: the newest version is rejected"),
    now: steadyNow,
  });
}

function open(podsDirectory: string, maxNames: number): HostsFiles {
  try {
    // The agent writes only files of its own user: as root, files of root.
    return openHostsFiles(podsDirectory, process.geteuid?.(), hostsFileLimits(maxNames));
  } catch (error) {
    throw new SwitchbackError(
      "config-invalid",
      `agent.kubeletRoot: ${podsDirectory} cannot be opened as a directory, without links on the way: ` +
        `${describeError(error)}`,
    );
  }
}

/** Ready when the pods, the namespaces and, if a map is followed, the map are known. */
function readiness(
  { pods, namespaces }: ClusterWatch,
  { following, hasMap, problem }: MapOnDemand,
  { live, applied, problems }: HostsReconcilerState,
  node: NodeHostsReport | undefined,
): Health {
  const checks = [
    { ok: pods.state.synced, text: "pods of the node" },
    { ok: namespaces.synced, text: "namespaces" },
    { ok: hasMap || !following, text: `map${problem === undefined ? "" : ` (${problem.code}: ${problem.text})`}` },
  ];
  const lines = checks.map(({ ok, text }) => `[${ok ? "+" : "-"}] ${text}`);
  lines.push(`${live} pods follow the map, ${applied === undefined ? "not all in step" : `all at ${applied}`}`);
  if (node !== undefined) {
    const problem = node.problem === undefined ? "" : `, ${node.problem.code}: ${node.problem.text}`;
    lines.push(`${node.names} names in the hosts file of the node, ${node.taken.length} left out${problem}`);
  }
  for (const { pod, reason } of problems) lines.push(`${pod}: ${reason.code}: ${reason.text}`);
  return { ok: checks.every(({ ok }) => ok), text: lines.join("\n") };
}
