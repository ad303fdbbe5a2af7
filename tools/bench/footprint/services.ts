import { setTimeout as delay } from "node:timers/promises";
import type { ControlPlane } from "#test/cluster/controlplane.ts";
import type { Bed } from "../controller/bed.ts";
import { footprintOf } from "../process.ts";
import { untilPublished } from "../published-names.ts";
import { percentile, progress, type Reporter } from "../report.ts";
import { startPod } from "./pods.ts";

/** Maximum memory for the Services of applications in a controller that needs none of them, MB. */
const GOAL = 4;
const PER_NAMESPACE = 500;
/** Concurrent writes while seeding. */
const CONCURRENCY = 32;
const PROGRESS_EVERY = 5_000;

/**
 * Measures a controller's memory `settleMs` after its start, with `count` Services of applications in the cluster and
 * without them. Reports the medians of several starts.
 */
export async function measureServices(
  bed: Bed,
  { count, starts, settleMs, names }: { count: number; starts: number; settleMs: number; names: number },
  report: Reporter,
): Promise<void> {
  const measure = async (services: number): Promise<number> => {
    const seen: number[] = [];
    for (let start = 1; start <= starts; start += 1) {
      progress(`${services} Services, start ${start} of ${starts}`);
      const { process } = await startPod(bed, "controller", 0);
      try {
        await process.ready();
        await untilPublished(bed.cluster, names);
        await Promise.race([delay(settleMs), process.ended]);
        seen.push(footprintOf(process.pid).anonymous);
      } finally {
        await process.stop();
      }
    }
    report.section({ services, starts });
    for (const [name, share] of [["min", 0] as const, ["p50", 0.5] as const, ["max", 1] as const]) {
      report.figure({ name: `controller-anonymous-${name}`, value: percentile(seen, share), unit: "MB" });
    }
    return percentile(seen, 0.5);
  };
  await bed.ingresses.seed(names);
  const without = await measure(0);
  await seed(bed.cluster, count);
  const value = (await measure(count)) - without;
  report.figure({ name: "controller-anonymous-more", value, unit: "MB", goal: GOAL });
}

/**
 * Creates headless Services, because the API server would need most of the time to allocate addresses. The controller
 * keeps none of them.
 */
async function seed(cluster: ControlPlane, count: number): Promise<void> {
  const post = async (path: string, body: object): Promise<void> => {
    const { status, body: answer } = await cluster.call({ method: "POST", path, body });
    if (status !== 201) throw new Error(`POST ${path} answered ${status}: ${JSON.stringify(answer)}`);
  };
  for (let index = 0; index * PER_NAMESPACE < count; index += 1) {
    await post("/api/v1/namespaces", { metadata: { name: `apps-${index}` } });
  }
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) {
      const index = next++;
      const namespace = `apps-${Math.floor(index / PER_NAMESPACE)}`;
      const path = `/api/v1/namespaces/${namespace}/services?fieldManager=kubectl-client-side-apply`;
      await post(path, serviceOf(`app-${index}`, namespace));
      if ((index + 1) % PROGRESS_EVERY === 0) progress(`${index + 1} of ${count} Services`);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, worker));
}

/** A Service like typical ones: kubectl wrote it with its annotation. */
function serviceOf(name: string, namespace: string): object {
  const labels = { "app.kubernetes.io/name": name, "app.kubernetes.io/managed-by": "Helm", team: namespace };
  const head = { apiVersion: "v1", kind: "Service" };
  const ports = [
    { name: "http", port: 80, targetPort: 8080 },
    { name: "metrics", port: 9090, targetPort: 9090 },
  ];
  const spec = { clusterIP: "None", selector: { "app.kubernetes.io/name": name }, ports };
  const applied = JSON.stringify({ ...head, metadata: { name, namespace, labels }, spec });
  const annotations = { "kubectl.kubernetes.io/last-applied-configuration": applied };
  return { ...head, metadata: { name, namespace, labels, annotations }, spec };
}
