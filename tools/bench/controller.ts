import { parseArgs } from "node:util";
import { Bed, Ingresses, type Names, within } from "./bed.ts";
import { bareTimes, MapFollower } from "./map-follower.ts";
import { measurePods } from "./pods.ts";
import { cpuOf, memoryOf } from "./process.ts";
import { progress, type Reporter, reportTimes } from "./report.ts";
import { Routes } from "./routes.ts";
import type { Served } from "./serve.ts";

const CHANGE_EVERY_MS = 1_000;
/** Pause after a start, so that garbage collection does not affect the next measurement. */
const SETTLE_MS = 3_000;
const IDLE_MS = 5_000;

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
 * single changes, one a second, as many new Services, and a take-over by another replica. `bare` is the API server's
 * own part of a publication. With `--routes`, the names come from HTTPRoutes of one Gateway. With `--pods`, only what
 * opted-in pods cost is measured (pods.ts).
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
  const controller = await bed.serve("controller");
  await coldStart(place, controller, size, report);
  await controller.rest(SETTLE_MS);
  progress(`${seconds} single changes`);
  await singleChanges(place, controller, seconds, report);
  if (names instanceof Ingresses) await newServices(names, controller, seconds, report);
  const { rss, peak } = memoryOf(controller.pid);
  report.figure("rss", rss, "MB");
  report.figure("rss-peak", peak, "MB");
  await takeOver(place, controller, report);
}

/** Measures a start with nothing published: no map, no front Services, no certificates. */
async function coldStart({ map }: Place, controller: Served, size: number, report: Reporter): Promise<void> {
  const full = await within(map.size(size), "a map of all names", controller);
  const cpu = cpuOf(controller.pid);
  report.figure("cold-start-all-names", full - controller.startedAt, "ms");
  report.figure("cold-start-cpu", cpu, "ms");
  report.figure("cold-start-rss-peak", memoryOf(controller.pid).peak, "MB");
}

/** One change a second. A slower change skips seconds, because concurrent changes are not measured here. */
async function singleChanges(place: Place, controller: Served, count: number, report: Reporter): Promise<void> {
  const { map, names, bed } = place;
  const idle = await idleCpu(controller);
  const times: number[] = [];
  const bytes = map.bytes;
  const cpu = await cpuOfEach(controller, count, idle, async () => {
    const change = names.next();
    const published = map.published(change.host);
    const writtenAt = performance.now();
    await change.write();
    times.push((await within(published, `${change.host} in the map`, controller)) - writtenAt);
  });
  report.figure("change-bytes-to-a-reader", (map.bytes - bytes) / count / 1_000, "kB");
  reportTimes(report, "change", times);
  reportTimes(report, "bare", await bareTimes(bed, count));
  report.figure("change-cpu", cpu, "ms");
  report.figure("idle-cpu", idle * 100, "%");
}

async function newServices(names: Ingresses, controller: Served, count: number, report: Reporter): Promise<void> {
  progress(`${count} new Services`);
  const idle = await idleCpu(controller);
  report.figure("service-cpu", await cpuOfEach(controller, count, idle, () => names.createService()), "ms");
}

/** CPU time of the process per millisecond when nothing changes, such as for the Lease and timers. */
async function idleCpu(controller: Served): Promise<number> {
  const [cpu, at] = [cpuOf(controller.pid), performance.now()];
  await controller.rest(IDLE_MS);
  return (cpuOf(controller.pid) - cpu) / (performance.now() - at);
}

/** CPU time of a change in milliseconds, above that at rest. */
async function cpuOfEach(
  controller: Served,
  count: number,
  idle: number,
  change: () => Promise<void>,
): Promise<number> {
  const [cpu, start] = [cpuOf(controller.pid), performance.now()];
  for (let number = 0; number < count; number += 1) {
    await change();
    const due = start + Math.ceil((performance.now() - start) / CHANGE_EVERY_MS) * CHANGE_EVERY_MS;
    await controller.rest(Math.max(0, due - performance.now()));
  }
  return (cpuOf(controller.pid) - cpu - idle * (performance.now() - start)) / count;
}

/** The leader ends. Measures the time until another replica, which is ready, publishes a change made meanwhile. */
async function takeOver({ bed, map, names }: Place, leader: Served, report: Reporter): Promise<void> {
  const follower = await bed.serve("controller", { replica: 1 });
  await follower.ready();
  await follower.rest(SETTLE_MS);
  const change = names.next();
  const published = map.published(change.host);
  const endedAt = performance.now();
  await Promise.all([leader.stop(), change.write()]);
  const at = await within(published, "a change after the leader has ended", follower);
  report.figure("take-over", at - endedAt, "ms");
}
