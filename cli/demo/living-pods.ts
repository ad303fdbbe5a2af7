import type { RolloutStatus, WorkloadStatus } from "#controller/rollout/report.ts";
import { pause } from "#lib/kube/time.ts";
import { admit, type DemoPod, podsOf } from "./admission.ts";
import { call } from "./call.ts";
import type { DemoSystem } from "./system.ts";

/** The opted-in pods of the demo while somebody watches. */
interface LivingPods {
  /** How the pods follow the map, in the form in which a leader reports it. */
  running(): RolloutStatus;
  stop(): Promise<void>;
}

const EVERY_MS = 1_000;

/**
 * Recreates each opted-in pod every second, and calls each of its names through the relay. So the page shows names
 * that change, pods that follow, and connections. Resolves after the first round.
 */
export async function startLivingPods(
  system: Pick<DemoSystem, "directory" | "webhook" | "front">,
): Promise<LivingPods> {
  const stopping = new AbortController();
  let workloads: readonly WorkloadStatus[] = [];
  const round = async () => {
    const pods = podsOf(system.directory.objects()).filter(({ optIn }) => optIn !== undefined);
    workloads = await Promise.all(pods.map((pod) => live(pod, system)));
  };
  await round();
  const rounds = (async () => {
    while (!stopping.signal.aborted) {
      await pause(EVERY_MS, stopping.signal);
      await round();
    }
  })();
  return {
    running: () => runningOf(workloads),
    stop: async () => {
      stopping.abort();
      await rounds;
    },
  };
}

async function live(pod: DemoPod, { webhook, front }: Pick<DemoSystem, "webhook" | "front">): Promise<WorkloadStatus> {
  // A malformed pod of the directory has no names, like a pod for which the webhook gave no answer.
  const { hostAliases } = await admit(pod, webhook).catch(() => ({ hostAliases: [] }));
  const names = hostAliases.flatMap(({ ip, hostnames }) => hostnames.map((name) => ({ name, ip })));
  await Promise.all(names.map(({ name, ip }) => call(name, { address: ip, port: front.port })));
  const isInjected = names.length > 0;
  return {
    namespace: pod.namespace,
    kind: "Pod",
    name: pod.name,
    pods: 1,
    stale: isInjected ? 0 : 1,
    notInjected: isInjected ? 0 : 1,
    mode: "none",
    standing: isInjected ? "in-step" : "left",
    code: "in-step",
    text: "the demo creates this pod anew every second",
    lastRestart: undefined,
    warnings: [],
  };
}

function runningOf(workloads: readonly WorkloadStatus[]): RolloutStatus {
  const sum = (of: "pods" | "stale") => workloads.reduce((total, each) => total + each[of], 0);
  return {
    unknown: undefined,
    underWay: undefined,
    waiting: 0,
    counts: { workloads: workloads.length, pods: sum("pods"), stale: sum("stale") },
    workloads: [...workloads],
    omitted: 0,
  };
}
