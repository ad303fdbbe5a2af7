import { join } from "node:path";
import type { Config } from "../config/schema.ts";
import { describeError, SwitchbackError } from "../errors/errors.ts";
import type { Reason } from "../hostmap/types.ts";
import type { KubeClient } from "../kube/client.ts";
import { corePath } from "../kube/paths.ts";
import { steadyNow } from "../kube/time.ts";
import { type Informer, watchObjects } from "../kube/watch.ts";
import { AgentLeaseWriter } from "../snapshot/agent-lease-writer.ts";
import type { MapReader } from "../snapshot/map-reader.ts";
import { isMap } from "../snapshot/published-map.ts";
import { type Health, livenessOf, startHealthServer } from "../telemetry/health.ts";
import type { Logger } from "../telemetry/log.ts";
import { type NamespaceFacts, watchNamespaces } from "../workloads/namespaces.ts";
import type { RawPod } from "../workloads/pods.ts";
import { watchDirectories } from "./directory-watches.ts";
import { createCompactor } from "./heap-compactor.ts";
import { type HostsFiles, openHostsFiles } from "./hosts-files.ts";
import { HostsReconciler, type HostsReconcilerState, type LiveMode } from "./hosts-reconciler.ts";
import { createLiveMode } from "./live-mode.ts";
import { agentMetrics } from "./metrics.ts";
import { createProjection, type NodePod } from "./node-pod.ts";
import { createOwnerAnnotations } from "./owner-annotations.ts";
import { watchUninstall } from "./uninstall-watch.ts";

interface AgentDeps {
  readonly client: Pick<KubeClient, "get" | "stream" | "apply" | "delete">;
  readonly maps: MapReader;
  readonly log: Logger;
  /** Name of our pod. */
  readonly identity: string;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

export interface RunningAgent {
  readonly healthPort: number;
  readonly state: HostsReconcilerState;
  /** Stops. The hosts files stay as they are unless our DaemonSet is being deleted: an upgrade changes nothing for any pod. */
  stop(): Promise<void>;
}

/** What the agent knows of the cluster so far. */
interface Picture {
  pods: Informer<NodePod>;
  namespaces: Informer<NamespaceFacts>;
  hasMap: boolean;
  mapProblem: Reason | undefined;
}

/** Runs the agent of one node. Throws `config-invalid` if no node is configured or the kubelet's directory does not exist. */
export async function runAgent(config: Config, deps: AgentDeps): Promise<RunningAgent> {
  const { client, log } = deps;
  const { node, kubeletRoot, namespace, sweepSeconds, renewSeconds, address, healthPort } = config.agent;
  if (node === undefined) throw new SwitchbackError("config-invalid", "agent.node: say which node's pods to follow");
  const podsDirectory = join(kubeletRoot, "pods");
  const files = open(podsDirectory);
  const watches = watchDirectories(podsDirectory, (uid) => follower.touched(uid), log);
  const again = () => follower.noteAll();
  const owners = createOwnerAnnotations({ client, log, now: steadyNow, random: Math.random, onLearned: again });
  const leaving = watchUninstall({ client, namespace, log, onChange: again });
  const renewMs = renewSeconds * 1000;
  const lease = new AgentLeaseWriter({ ...deps, namespace, node, renewMs, daemonSet: () => leaving.daemonSet });
  let left: Promise<void> = Promise.resolve();
  const judge = (pod: NodePod): LiveMode => (leaving.uninstalling ? "no" : liveModeOf(pod));
  const compactor = createCompactor(globalThis.gc);
  let written = 0;
  const onRound = (state: HostsReconcilerState): void => {
    if (state.written !== written) compactor.recordActivity();
    written = state.written;
    if (!picture.pods.state.synced || !picture.namespaces.state.synced) return;
    if (!leaving.uninstalling) lease.report(state);
    else if (follower.isClean)
      left = lease.remove().catch((error) => log.warn({ error: describeError(error) }, "lease: not deleted"));
  };
  const follower = new HostsReconciler({ files, watches, judge, maxNames: config.inject.maxNames, log, onRound });
  const picture = watchCluster(client, node, { follower, log });
  const { onChangeOf } = owners;
  const liveModeOf = createLiveMode({ config, namespaces: picture.namespaces, onChangeOf });
  const maps = deps.maps.start((offer) => {
    compactor.recordActivity();
    if (isMap(offer)) follower.setMap(offer);
    else log.warn({ ...offer }, "map: not replaced");
    picture.hasMap ||= isMap(offer);
    picture.mapProblem = isMap(offer) ? undefined : offer;
  });
  const sweep = setInterval(() => {
    follower.sweep();
    owners.tidy();
    compactor.collectIfIdle();
  }, sweepSeconds * 1000);
  const health = await startHealthServer({
    address,
    port: healthPort,
    live: () => livenessOf(Math.max(maps.inactiveMs?.() ?? 0, ...inactivity(picture), leaving.inactiveMs)),
    ready: () => readiness(picture, follower.state),
    registry: agentMetrics(() => follower.state),
  });
  log.info({ node, podsDirectory, healthPort: health.port }, "following the map");
  const stop = async (): Promise<void> => {
    clearInterval(sweep);
    if (await leaving.askNow()) follower.noteAll();
    await follower.settled();
    await left;
    await Promise.all([maps.stop(), leaving.stop(), picture.pods.stop(), picture.namespaces.stop()]);
    lease.stop();
    watches.close();
    follower.stop();
    files.close();
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

function open(podsDirectory: string): HostsFiles {
  try {
    // Only files of our own user are written: as root, those of root.
    return openHostsFiles(podsDirectory, process.geteuid?.());
  } catch (error) {
    throw new SwitchbackError(
      "config-invalid",
      `agent.kubeletRoot: ${podsDirectory} cannot be opened as a directory, without links on the way: ${describeError(error)}`,
    );
  }
}

function watchCluster(
  client: AgentDeps["client"],
  node: string,
  { follower, log }: { readonly follower: HostsReconciler; readonly log: Logger },
): Picture {
  const pods = watchObjects<NodePod, RawPod>({
    client,
    path: corePath("pods"),
    fieldSelector: `spec.nodeName=${node}`,
    // Pods are large objects: small pages keep the garbage in memory small.
    pageSize: 50,
    project: createProjection(),
    onChange({ before, after }) {
      if (before !== undefined && before.uid !== after?.uid) follower.removePod(before.uid);
      if (after !== undefined) follower.putPod(after);
    },
    onSynced: () => follower.noteAll(),
    log,
  });
  const namespaces = watchNamespaces({ client, log, onChange: () => follower.noteAll() });
  return { pods, namespaces, hasMap: false, mapProblem: undefined };
}

function inactivity({ pods, namespaces }: Picture): number[] {
  return [pods.state.inactiveMs, namespaces.state.inactiveMs];
}

/** Ready once the pods, the namespaces and a map are known. */
function readiness(
  { pods, namespaces, hasMap, mapProblem }: Picture,
  { live, applied, problems }: HostsReconcilerState,
): Health {
  const checks = [
    { ok: pods.state.synced, text: "pods of the node" },
    { ok: namespaces.state.synced, text: "namespaces" },
    { ok: hasMap, text: `map${mapProblem === undefined ? "" : ` (${mapProblem.code}: ${mapProblem.text})`}` },
  ];
  const lines = checks.map(({ ok, text }) => `[${ok ? "+" : "-"}] ${text}`);
  lines.push(`${live} pods follow the map, ${applied === undefined ? "not all in step" : `all at ${applied}`}`);
  for (const { pod, reason } of problems) lines.push(`${pod}: ${reason.code}: ${reason.text}`);
  return { ok: checks.every(({ ok }) => ok), text: lines.join("\n") };
}
