import { parseArgs } from "node:util";
import { Bed, cpuOfEach, everySecond, Ingresses, type Names, within } from "./bed.ts";
import { bareTimes, MapFollower } from "./map-follower.ts";
import { measurePods } from "./pods.ts";
import { cpuOf, memoryOf } from "./process.ts";
import { progress, type Reporter, reportTimes } from "./report.ts";
import { Routes } from "./routes.ts";
import type { Served } from "./serve.ts";

/**
 * Pause after a start, so that neither garbage collection nor the look at all objects that a leader takes after ten
 * seconds (controller/claim-events) affects the next measurement.
 */
const SETTLE_MS = 13_000;
/** More names need a larger heap than the chart's default (docs/sizing.md). */
const DEFAULT_HEAP_NAMES = 20_000;
const LARGE_HEAP = ["--max-old-space-size=384"];

/** What is measured at one size. */
interface Place {
  readonly bed: Bed;
  readonly map: MapFollower;
  readonly names: Names;
}

/**
 * `npm run bench -- controller [--names 100,10000,50000] [--routes N] [--pods N] [--seconds 30]`
 *
 * Measures the controller as a separate process against a real etcd and kube-apiserver. Each size gets `--seconds` of
 * single changes, one a second, then a take-over by another replica, and with that one the CPU time of as many changes
 * and new Services. `bare` is the API server's own part of a publication. With `--routes`, the names come from
 * HTTPRoutes of one Gateway. With `--pods`, only what opted-in pods cost is measured (pods.ts).
 */
export async function run(args: string[], report: Reporter): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      names: { type: "string", default: "100,10000,50000" },
      routes: { type: "string" },
      pods: { type: "string" },
      seconds: { type: "string", default: "30" },
    },
  });
  const { pods, routes } = values;
  if (pods !== undefined) return await onBed((bed, map) => measurePods({ bed, map }, Number(pods), report));
  for (const size of (routes ?? values.names).split(",").map(Number)) {
    await onBed(async (bed, map) => {
      const names = routes === undefined ? new Ingresses(bed) : new Routes(bed);
      report.section({ [routes === undefined ? "names" : "routes"]: size });
      progress(`creating ${size} objects`);
      await names.seed(size);
      await measure({ bed, map, names }, { size, seconds: Number(values.seconds) }, report);
    });
  }
}

async function onBed(work: (bed: Bed, map: MapFollower) => Promise<void>): Promise<void> {
  const bed = await Bed.open();
  const map = new MapFollower();
  try {
    await map.start(bed.cluster);
    await work(bed, map);
  } finally {
    await map.stop();
    await bed.close();
  }
}

async function measure(place: Place, options: { size: number; seconds: number }, report: Reporter): Promise<void> {
  const { bed, names } = place;
  const { size, seconds } = options;
  const nodeFlags = size > DEFAULT_HEAP_NAMES ? LARGE_HEAP : [];
  const leader = await bed.serve("controller", { nodeFlags });
  await coldStart(place, leader, size, report);
  await leader.rest(SETTLE_MS);
  progress(`${seconds} single changes`);
  await changeTimes(place, leader, seconds, report);
  const { rss, peak } = memoryOf(leader.pid);
  report.figure("rss", rss, "MB");
  report.figure("rss-peak", peak, "MB");
  const second = await takeOver(place, { leader, nodeFlags }, report);
  progress(`CPU time of ${seconds} changes`);
  await second.rest(SETTLE_MS);
  report.figure("change-cpu", await cpuOfEach(second, seconds, () => names.next().write()), "ms");
  if (!(names instanceof Ingresses)) return;
  progress(`CPU time of ${seconds} new Services`);
  report.figure("service-cpu", await cpuOfEach(second, seconds, () => names.createService()), "ms");
}

/** Measures a start with nothing published: no map, no front Services, no certificates. */
async function coldStart({ map }: Place, controller: Served, size: number, report: Reporter): Promise<void> {
  const full = await within(map.size(size), "a map of all names", controller);
  const cpu = cpuOf(controller.pid);
  report.figure("cold-start-all-names", full - controller.startedAt, "ms");
  report.figure("cold-start-cpu", cpu, "ms");
  report.figure("cold-start-rss-peak", memoryOf(controller.pid).peak, "MB");
}

async function changeTimes(place: Place, controller: Served, count: number, report: Reporter): Promise<void> {
  const { map, names, bed } = place;
  const times: number[] = [];
  const bytes = map.bytes;
  await everySecond(controller, count, async () => {
    const change = names.next();
    const published = map.published(change.host);
    const writtenAt = performance.now();
    await change.write();
    times.push((await within(published, `${change.host} in the map`, controller)) - writtenAt);
  });
  report.figure("change-bytes-to-a-reader", (map.bytes - bytes) / count / 1_000, "kB");
  reportTimes(report, "change", times);
  reportTimes(report, "bare", await bareTimes(bed, count));
}

/**
 * The leader ends. Measures the time until another replica, which is ready, publishes a change made meanwhile. Returns
 * that replica. It looks no names up: a controller does so for minutes after its start, at more CPU time than changes.
 */
async function takeOver(
  { bed, map, names }: Place,
  { leader, nodeFlags }: { readonly leader: Served; readonly nodeFlags: readonly string[] },
  report: Reporter,
): Promise<Served> {
  const { policy, ...config } = bed.config;
  const second = await bed.serve("controller", {
    config: { ...config, policy: { ...policy, verifyDns: "off" } },
    replica: 1,
    nodeFlags,
  });
  await second.ready();
  await second.rest(SETTLE_MS);
  const change = names.next();
  const published = map.published(change.host);
  const endedAt = performance.now();
  await Promise.all([leader.stop(), change.write()]);
  const at = await within(published, "a change after the leader has ended", second);
  report.figure("take-over", at - endedAt, "ms");
  return second;
}
