import { setTimeout as delay } from "node:timers/promises";
import type { Bed } from "../controller/bed.ts";
import { settingsOf } from "../controller/phases.ts";
import { type ServedProcess, serve } from "../controller/process.ts";
import { cpuOf, type Footprint, footprintOf } from "../process.ts";
import { untilPublished } from "../published-names.ts";

/** In the order of their start: the webhook is ready after the controller has issued its certificate. */
export const COMPONENTS = ["controller", "webhook", "proxy"] as const;
export type ComponentName = (typeof COMPONENTS)[number];

/** A pod of the default install, without its container: a process with the chart's flags and environment. */
interface Pod {
  readonly component: ComponentName;
  /** Number from 0; the first controller is the leader. */
  readonly replica: number;
  readonly process: ServedProcess;
}

/** Starts a pod. Each replica listens on its own address. */
export async function startPod(bed: Bed, component: ComponentName, replica: number): Promise<Pod> {
  const settings = {
    controller: settingsOf(bed),
    webhook: ["webhook.port=0"],
    proxy: [],
  };
  const process = await serve(bed.cluster, component, settings[component], {
    program: { path: bed.program, tree: bed.tree },
    podName: `${component}-${replica}`,
    address: `127.0.0.${replica + 1}`,
  });
  return { component, replica, process };
}

/**
 * Starts all pods of the default installation, two per component. Waits until all are ready and the map has `names`.
 */
export async function startAll(bed: Bed, names: number): Promise<Pod[]> {
  const pods: Pod[] = [];
  try {
    for (const component of COMPONENTS) {
      for (const replica of [0, 1]) {
        const pod = await startPod(bed, component, replica);
        pods.push(pod);
        await pod.process.ready();
      }
      if (component === "controller") await untilPublished(bed.cluster, names);
    }
    return pods;
  } catch (error) {
    await stopAll(pods);
    throw error;
  }
}

/** Stops pods, the last one first: the standby controller stops before the Lease is free. */
export async function stopAll(pods: readonly Pod[]): Promise<void> {
  for (const { process } of pods.toReversed()) await process.stop();
}

/** Starts the pod of `profile: small` with the map of an earlier start. Its one process is all three components. */
export async function startSmall(bed: Bed): Promise<ServedProcess> {
  const ports = ["webhook.port=0", "webhook.healthPort=0", "proxy.healthPort=0"];
  return await serve(bed.cluster, "all", [...settingsOf(bed), ...ports], {
    program: { path: bed.program, tree: bed.tree },
    podName: "all-0",
  });
}

/** Memory of the pods: the mean of each component's two pods, and the sum of all. */
export interface Footprints {
  readonly each: Readonly<Record<ComponentName, Footprint>>;
  readonly sum: Footprint;
}

/** Measures after `ms` at rest. Throws if a process has ended by then. */
export async function footprintsAfter(ms: number, pods: readonly Pod[]): Promise<Footprints> {
  await Promise.race([delay(ms), ...pods.map(({ process }) => process.ended)]);
  const all = pods.map(({ component, process }) => ({ component, footprint: footprintOf(process.pid) }));
  const meanOf = (wanted: ComponentName): Footprint => {
    const own = all.filter(({ component }) => component === wanted).map(({ footprint }) => footprint);
    return scaledSum(own, 1 / own.length);
  };
  return {
    each: { controller: meanOf("controller"), webhook: meanOf("webhook"), proxy: meanOf("proxy") },
    sum: scaledSum(
      all.map(({ footprint }) => footprint),
      1,
    ),
  };
}

function scaledSum(all: readonly Footprint[], by: number): Footprint {
  const sum = (name: keyof Footprint): number => by * all.reduce((total, each) => total + each[name], 0);
  return { rss: sum("rss"), pss: sum("pss"), anonymous: sum("anonymous") };
}

/** Duration of a start. */
export interface Start {
  /** Milliseconds until `/readyz` is OK. */
  readonly ready: number;
  /** CPU milliseconds until then. Other work on the machine affects this figure less. */
  readonly cpu: number;
}

/** Time for a new leader and the API server to finish their work, so that the next start has the cores. */
const REST_MS = 1_500;

/**
 * Starts each component once, one after the other, with the map of an earlier start. The controller stays the leader
 * meanwhile.
 */
export async function startEach(bed: Bed): Promise<ReadonlyMap<ComponentName, Start>> {
  const starts = new Map<ComponentName, Start>();
  const pods: Pod[] = [];
  try {
    for (const component of COMPONENTS) {
      const pod = await startPod(bed, component, 0);
      pods.push(pod);
      await pod.process.ready();
      const ready = performance.now() - pod.process.startedAt;
      starts.set(component, { ready, cpu: cpuOf(pod.process.pid) });
      await delay(REST_MS);
    }
  } finally {
    await stopAll(pods);
  }
  return starts;
}
