import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { availableParallelism, loadavg, tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { compileProduct } from "#test/cluster/product-image.ts";
import { ROOT } from "../chart.ts";
import { type Bed, openBed } from "../controller/bed.ts";
import { type Footprint, footprintOf } from "../process.ts";
import { createReporter, percentile, progress, type Reporter } from "../report.ts";
import {
  COMPONENTS,
  type ComponentName,
  type Footprints,
  footprintsAfter,
  type Start,
  startAll,
  startEach,
  startSmall,
  stopAll,
} from "./pods.ts";
import { measureServices } from "./services.ts";

/** Time until V8 has released the memory that a start needed. */
const SETTLE_MS = 10_000;

/** Maximum memory in MB and time to readiness in milliseconds, at rest and with few names. */
const GOALS: Readonly<Record<ComponentName, { readonly anonymous: number; readonly ready: number }>> = {
  controller: { anonymous: 27, ready: 250 },
  webhook: { anonymous: 20, ready: 150 },
  proxy: { anonymous: 32, ready: 200 },
};
const SMALL_GOALS: Partial<Footprint> = { anonymous: 30, rss: 80 };
const SUM_GOALS: Partial<Footprint> = { anonymous: 160, rss: 430 };
/** Maximum number of names for which the goals hold. They are for a small cluster. */
const FEW_NAMES = 100;

/**
 * `npm run bench -- footprint [--names 0,100,5000] [--starts 7] [--services N] [--beside TREE]
 * [--peer COMMAND]... [--json]`
 *
 * Measures the memory of the six pods of the default installation at rest, and of the one pod of `profile: small`.
 * Each runs as in the image, on a real etcd and kube-apiserver. Also measures the time from each component's start to
 * its readiness, with the trees in turns. `--peer`: a command that runs until it is stopped, whose memory is measured
 * too. A bare Node is always measured. `--services`: instead, measures a controller's memory with N Services of
 * applications in the cluster, and without them.
 */
export async function run(argv: string[]): Promise<void> {
  const { values } = parseArgs({
    args: argv,
    options: {
      json: { type: "boolean", default: false },
      names: { type: "string", default: "0,100,5000" },
      starts: { type: "string", default: "7" },
      services: { type: "string" },
      beside: { type: "string" },
      peer: { type: "string", multiple: true, default: [] },
    },
  });
  const sizes = values.names.split(",").map(Number);
  const report = createReporter("footprint", values.json);
  await measurePeers([["bare Node", [process.execPath, "-e", "setInterval(() => {}, 1e9)"]]], report);
  await measurePeers(
    values.peer.map((command) => [command, command.split(" ")]),
    report,
  );
  const trees = values.beside === undefined ? [ROOT] : [resolve(values.beside), ROOT];
  const folder = await mkdtemp(join(tmpdir(), "switchback-footprint-"));
  const beds: Bed[] = [];
  try {
    for (const tree of trees) {
      progress(`compiling ${tree}`);
      beds.push(await openBed(tree, await compileProduct(await mkdtemp(join(folder, "tree-")), tree), 0));
    }
    if (values.services !== undefined) {
      const options = { count: Number(values.services), starts: Number(values.starts), settleMs: SETTLE_MS };
      for (const bed of beds) await measureServices(bed, { ...options, names: Math.max(...sizes) }, report);
      return;
    }
    for (const names of sizes.sort((a, b) => a - b)) await measureSize(beds, names, Number(values.starts), report);
  } finally {
    for (const bed of beds) await bed.close();
    await rm(folder, { recursive: true, force: true });
  }
}

async function measurePeers(peers: readonly (readonly [string, readonly string[]])[], report: Reporter): Promise<void> {
  for (const [name, [program = "", ...args]] of peers) {
    const child = spawn(program, args, { stdio: "ignore" });
    await once(child, "spawn");
    await Promise.race([
      delay(SETTLE_MS),
      once(child, "exit").then(() => {
        throw new Error(`${name} ended`);
      }),
    ]);
    report.section({ process: name });
    reportFootprint("", footprintOf(child.pid ?? 0), {}, report);
    child.kill();
    await once(child, "exit");
  }
}

async function measureSize(beds: readonly Bed[], names: number, starts: number, report: Reporter): Promise<void> {
  for (const bed of beds) {
    progress(`${names} names, ${bed.tree}`);
    await bed.ingresses.seed(names);
    const pods = await startAll(bed, names);
    try {
      const footprints = await footprintsAfter(SETTLE_MS, pods);
      report.section(sectionOf(bed, names));
      reportPods(footprints, isJudged(bed, names), report);
    } finally {
      await stopAll(pods);
    }
  }
  // An earlier tree has no such process.
  for (const bed of beds.filter(({ tree }) => tree === ROOT)) await measureSmall(bed, names, report);
  const seen = new Map<Bed, ReadonlyMap<ComponentName, Start>[]>(beds.map((bed) => [bed, []]));
  for (let round = 0; round < starts; round += 1) {
    progress(`start ${round + 1} of ${starts}`);
    // The trees take turns, and the order changes each round.
    for (const bed of round % 2 === 0 ? beds : beds.toReversed()) seen.get(bed)?.push(await startEach(bed));
  }
  for (const [bed, rounds] of seen) {
    report.section({
      ...sectionOf(bed, names),
      starts,
      cores: availableParallelism(),
      load: Math.round(loadavg()[0] ?? 0),
    });
    if (rounds.length > 0) reportStarts(rounds, isJudged(bed, names), report);
  }
}

/** The one pod of `profile: small`. */
async function measureSmall(bed: Bed, names: number, report: Reporter): Promise<void> {
  const started = await startSmall(bed);
  try {
    await started.ready();
    const ready = performance.now() - started.startedAt;
    await Promise.race([delay(SETTLE_MS), started.ended]);
    report.section({ ...sectionOf(bed, names), profile: "small" });
    reportFootprint("all-", footprintOf(started.pid), isJudged(bed, names) ? SMALL_GOALS : {}, report);
    report.figure({ name: "all-ready", value: ready, unit: "ms" });
  } finally {
    await started.stop();
  }
}

function sectionOf({ tree }: Bed, names: number) {
  return { tree: tree === ROOT ? "this" : basename(tree), names };
}

function isJudged({ tree }: Bed, names: number): boolean {
  return tree === ROOT && names <= FEW_NAMES;
}

function reportPods({ each, sum }: Footprints, isHeld: boolean, report: Reporter): void {
  for (const component of COMPONENTS) {
    const { anonymous } = GOALS[component];
    reportFootprint(`${component}-`, each[component], isHeld ? { anonymous } : {}, report);
  }
  reportFootprint("sum-", sum, isHeld ? SUM_GOALS : {}, report);
}

function reportStarts(rounds: readonly ReadonlyMap<ComponentName, Start>[], isHeld: boolean, report: Reporter): void {
  for (const component of COMPONENTS) {
    const own = rounds.flatMap((round) => round.get(component) ?? []);
    const ready = own.map((each) => each.ready);
    const goal = isHeld ? GOALS[component].ready : undefined;
    report.figure({ name: `${component}-ready-p50`, value: percentile(ready, 0.5), unit: "ms", goal });
    report.figure({ name: `${component}-ready-min`, value: Math.min(...ready), unit: "ms" });
    report.figure({ name: `${component}-ready-max`, value: Math.max(...ready), unit: "ms" });
    const cpu = percentile(
      own.map((each) => each.cpu),
      0.5,
    );
    report.figure({ name: `${component}-ready-cpu-p50`, value: cpu, unit: "ms" });
  }
}

function reportFootprint(of: string, footprint: Footprint, goals: Partial<Footprint>, report: Reporter): void {
  for (const name of ["anonymous", "rss", "pss"] as const) {
    report.figure({ name: `${of}${name}`, value: footprint[name], unit: "MB", goal: goals[name] });
  }
}
