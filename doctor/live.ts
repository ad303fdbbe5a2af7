import { configSchema } from "../config/schema.ts";
import { ON_CHANGE_KEY } from "../hostmap/metadata-keys.ts";
import { effectiveOnChange } from "../hostmap/on-change.ts";
import { agentLeaseName } from "../snapshot/agent-lease-format.ts";
import { workloadKey } from "../workloads/workload-keys.ts";
import type { ClusterFacts, PodInfo } from "./facts.ts";

/**
 * Whether a pod's hosts file is to be kept current by its node's agent. What the annotation of its workload says is the leader's to
 * know, which reads the workloads of the namespaces where it may restart.
 */
export function isLive({
  namespaces,
  install,
}: Pick<ClusterFacts, "namespaces" | "install">): (pod: PodInfo) => boolean {
  const config = install.config.known ? install.config.value : undefined;
  const fallback = (config?.pods ?? configSchema.parse({}).pods).onChange;
  const workloads = new Map(
    ((install.status.known ? install.status.value.running?.workloads : undefined) ?? [])
      .filter(({ modeFrom }) => modeFrom === "workload")
      .map((workload) => [workloadKey(workload), workload.mode]),
  );
  return ({ namespace, annotations, owner }) => {
    const ofNamespace = namespaces.known ? namespaces.value.get(namespace)?.onChange : undefined;
    const [pod, workload] = [annotations[ON_CHANGE_KEY], workloads.get(owner)];
    return effectiveOnChange({ pod, workload, namespace: ofNamespace, fallback }).mode === "live";
  };
}

/** Whether the agent of a pod's node has applied a revision of the map; undefined: that cannot be told. */
export function appliedByAgent(
  { agents, install }: ClusterFacts,
  { node }: PodInfo,
  mapRevision: string,
): boolean | undefined {
  if (agents === undefined || !agents.known) return undefined;
  const config = install.config.known ? install.config.value : undefined;
  const patienceMs = (config?.pods ?? configSchema.parse({}).pods).agentSilenceSeconds * 1000;
  const agent = agents.value.find(({ lease }) => lease === agentLeaseName(node));
  return agent !== undefined && agent.silentMs <= patienceMs && agent.mapRevision === mapRevision;
}
