import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { INJECT_KEY, INJECTED_KEY, REVISION_KEY } from "#hostmap/metadata-keys.ts";
import { type Bed, cpuOfEach, each, Ingresses, within } from "./bed.ts";
import type { MapFollower } from "./map-follower.ts";
import { memoryOf } from "./process.ts";
import { percentile, progress, type Reporter } from "./report.ts";
import type { Served } from "./serve.ts";

const PODS_OF_NAMESPACE = 500;
const PODS_OF_WORKLOAD = 5;
const NAMES = 100;
const CHANGES = 20;
const SETTLE_MS = 10_000;

/** What a controller needs for the pods of a cluster. */
interface Cost {
  /** MB. */
  readonly anonymous: number;
  /** CPU time of a change of the map, milliseconds. */
  readonly cpu: number;
  /**
   * The longest time of a change without a turn of the event loop, milliseconds. The median of all changes, because a
   * busy machine stops the process in some of them.
   */
  readonly slice: number;
}

/**
 * Measures a controller without opted-in pods and then with `count` of them, which are all stale. The pods may not be
 * restarted: an empty list of namespaces would keep the controller from reading them, so it has one without pods.
 */
export async function measurePods(
  { bed, map }: { readonly bed: Bed; readonly map: MapFollower },
  count: number,
  report: Reporter,
): Promise<void> {
  const ingresses = new Ingresses(bed);
  await ingresses.seed(NAMES);
  const none = await costOf(bed, map, ingresses);
  progress(`creating ${count} pods`);
  const namespaces = Math.ceil(count / PODS_OF_NAMESPACE);
  await each(namespaces, (index) => bed.createNamespace(`pods-${index}`, { [INJECT_KEY]: "enabled" }));
  await each(count, (index) => createPod(bed, index));
  const all = await costOf(bed, map, ingresses);
  report.section({ pods: count });
  report.figure("memory-over-none", all.anonymous - none.anonymous, "MB");
  report.figure("map-change-cpu", all.cpu - none.cpu, "ms");
  report.figure("longest-slice", all.slice, "ms");
  report.figure("longest-slice-none", none.slice, "ms");
}

async function costOf(bed: Bed, map: MapFollower, ingresses: Ingresses): Promise<Cost> {
  const slicesFile = join(bed.folder, "slices");
  const config = { ...bed.config, restart: { namespaces: ["without-pods"] } };
  const controller = await bed.serve("controller", { config, slicesFile });
  await within(map.size(NAMES), "a map of all names", controller);
  await controller.rest(SETTLE_MS);
  const { anonymous } = memoryOf(controller.pid);
  const slices: number[] = [];
  const cpu = await cpuOfEach(controller, CHANGES, async () => {
    slices.push(await longestSlice(controller, slicesFile));
    await ingresses.next().write();
  });
  await controller.stop();
  // The first one is of the start.
  return { anonymous, cpu, slice: percentile(slices.slice(1), 0.5) };
}

/** The longest slice since the call before (mount.ts). */
async function longestSlice(controller: Served, file: string): Promise<number> {
  process.kill(controller.pid, "SIGUSR2");
  await controller.rest(100);
  return Number(await readFile(file, "utf8"));
}

async function createPod(bed: Bed, index: number): Promise<void> {
  const namespace = `pods-${Math.floor(index / PODS_OF_NAMESPACE)}`;
  const workload = `app-${Math.floor(index / PODS_OF_WORKLOAD)}`;
  const owner = { apiVersion: "apps/v1", kind: "ReplicaSet", name: `${workload}-5d9c7b8f6d`, controller: true };
  const metadata = {
    name: `${owner.name}-${index}`,
    labels: { app: workload, "pod-template-hash": "5d9c7b8f6d", [INJECTED_KEY]: "true" },
    annotations: { [INJECTED_KEY]: "host-1.example.com", [REVISION_KEY]: "0123456789ab" },
    ownerReferences: [{ ...owner, uid: `00000000-0000-4000-8000-${workload.slice(4).padStart(12, "0")}` }],
  };
  const spec = { nodeName: `node-${index % 300}`, containers: [{ name: "app", image: "registry.example.com/app:1" }] };
  await bed.create(`/api/v1/namespaces/${namespace}/pods`, { metadata, spec });
}
