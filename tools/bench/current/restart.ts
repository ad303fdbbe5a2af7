import { deployment } from "#test/cluster/addons/objects.ts";
import type { Cluster } from "#test/cluster/cluster.ts";
import { IMAGES } from "#test/cluster/images.ts";
import { leaderStatus } from "#test/e2e/switchback.ts";
import { percentile, progress, type Reporter } from "../report.ts";
import { onCluster } from "./cluster.ts";

const NAMESPACE = "bench-restart";
/** How long the Deployment's container takes to become ready. */
const START_SECONDS = 2;
const GOAL_SECONDS = 15;
const DEADLINE_SECONDS = 60;

interface Pod {
  readonly metadata: { readonly deletionTimestamp?: string };
  readonly spec: { readonly hostAliases?: ReadonlyArray<{ readonly hostnames: readonly string[] }> };
  readonly status: { readonly conditions?: ReadonlyArray<{ readonly type: string; readonly status: string }> };
}

/**
 * On this machine's cluster: time from an Ingress's creation to a ready pod that has its name, after a restart with
 * the default settings. The Deployment has one replica, which needs two seconds to become ready.
 */
export async function measureRestarts(rounds: number, report: Reporter): Promise<void> {
  const seconds: number[] = [];
  await onCluster(NAMESPACE, { config: { restart: { namespaces: [NAMESPACE] } } }, async (cluster) => {
    for (let round = 0; round < rounds; round++) {
      progress(`restart ${round + 1} of ${rounds}`);
      seconds.push(await measureOne(cluster, `restart-${round}`));
    }
  });
  report.section({ restarts: rounds });
  report.figure({ name: "ingress-to-ready-pod-p50", value: percentile(seconds, 0.5), unit: "s" });
  report.figure({ name: "ingress-to-ready-pod-max", value: Math.max(...seconds), unit: "s", goal: GOAL_SECONDS });
}

/** Measures a new Deployment each time, because the interval between two restarts of one Deployment is not measured. */
async function measureOne(cluster: Cluster, name: string): Promise<number> {
  const host = `${name}.example.com`;
  const probe = { exec: { command: ["/client", "resolve", "localhost"] }, initialDelaySeconds: START_SECONDS };
  const workload = deployment({
    namespace: NAMESPACE,
    name,
    image: IMAGES.goClient,
    args: ["sleep"],
    readinessProbe: probe,
  });
  await cluster.apply(workload);
  await cluster.rolledOut(NAMESPACE, `deployment/${name}`);
  await cluster.until(`${name} is in step`, DEADLINE_SECONDS, async () => {
    const { running } = await leaderStatus(cluster);
    const found = running?.workloads.find((each) => each.namespace === NAMESPACE && each.name === name);
    return found?.standing === "in-step" || undefined;
  });
  const created = performance.now();
  await cluster.apply({
    apiVersion: "networking.k8s.io/v1",
    kind: "Ingress",
    metadata: { name, namespace: NAMESPACE },
    spec: { ingressClassName: "nginx", rules: [{ host }] },
  });
  await cluster.until(`a ready pod has ${host}`, DEADLINE_SECONDS, async () => {
    const { items } = await cluster.get<{ items: Pod[] }>("-n", NAMESPACE, "pods", "-l", `app=${name}`);
    return items.some((pod) => isReady(pod) && has(pod, host)) || undefined;
  });
  const took = (performance.now() - created) / 1000;
  await cluster.delete(workload);
  return took;
}

function isReady({ metadata, status }: Pod): boolean {
  const isTrue = status.conditions?.some((condition) => condition.type === "Ready" && condition.status === "True");
  return isTrue === true && metadata.deletionTimestamp === undefined;
}

function has({ spec }: Pod, host: string): boolean {
  return (spec.hostAliases ?? []).some(({ hostnames }) => hostnames.includes(host));
}
