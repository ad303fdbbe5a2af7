import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { compileProduct } from "#test/cluster/product-image.ts";
import { ROOT } from "../chart.ts";
import { cpuOf } from "../process.ts";
import { untilPublished } from "../published-names.ts";
import { percentile, progress, type Reporter } from "../report.ts";
import { type Bed, openBed } from "./bed.ts";
import { idleCpu, settingsOf } from "./phases.ts";
import { serve } from "./process.ts";

/** Maximum CPU time, as a ratio to the other checkout's. */
const MOST_OF_BEFORE = 1.05;
/** Below this cost on both sides, in milliseconds, a change and its ratio are noise. */
const NOTHING_MS = 1;
const SETTLE_MS = 8_000;
const IDLE_MS = 4_000;
/** After a start, the controller looks up 10,000 names for minutes. That costs more CPU than the measured changes. */
const NO_LOOK_UPS = "policy.verifyDns=off";
/** Below 2 changes a second (`map.publicationsPerSecond`), so that each change is a publication. */
const CHANGE_EVERY_MS = 600;
/** Changes before the measured ones: a term's first write of a shard costs one more request (lib/kube/fence.ts). */
const FIRST_CHANGES = 200;
/** Time until these changes are published, which `map.bytesPerSecond` limits. */
const PUBLISHED_MS = 15_000;
const ROUNDS = 5;

/**
 * CPU time in one round, in milliseconds: from the start until the controller is at rest, per change, and per new
 * Service.
 */
interface Sample {
  readonly startCpu: number;
  readonly changeCpu: number;
  readonly serviceCpu: number;
}

/**
 * Measures the controllers of two checkouts in turns, at each number of names. Each runs as in its image and has its
 * own control plane. Each round has `seconds` of single changes and `seconds` of new Services, in the middle of a
 * term. Ratios are medians of paired rounds.
 */
export async function measureBeside(
  tree: string,
  { names, seconds }: { readonly names: readonly number[]; readonly seconds: number },
  report: Reporter,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "switchback-controller-"));
  const beds: Bed[] = [];
  const changes = Math.ceil((seconds * 1_000) / CHANGE_EVERY_MS);
  try {
    for (const each of [tree, ROOT]) {
      progress(`compiling ${each}`);
      beds.push(await openBed(each, await compileProduct(await mkdtemp(join(folder, "tree-")), each), 0));
    }
    for (const size of names) {
      const samples = new Map<Bed, Sample[]>(beds.map((bed) => [bed, []]));
      for (const bed of beds) {
        await bed.ingresses.seed(size);
        await publishOnce(bed, size);
      }
      for (let round = 0; round < ROUNDS; round += 1) {
        progress(`${size} names, round ${round + 1} of ${ROUNDS}`);
        // The checkouts take turns, and the order changes each round.
        for (const bed of round % 2 === 0 ? beds : beds.toReversed()) {
          const sample = await measureRound(bed, changes);
          samples.get(bed)?.push(sample);
          progress(`${basename(bed.tree)}: ${JSON.stringify(sample)}`);
        }
      }
      const [before = [], ours = []] = beds.map((bed) => samples.get(bed));
      reportSize({ names: size, tree: basename(tree) }, ours, before, report);
    }
  } finally {
    for (const bed of beds) await bed.close();
    await rm(folder, { recursive: true, force: true });
  }
}

/** Publishes the map once, so that all rounds start with a published map. */
async function publishOnce(bed: Bed, names: number): Promise<void> {
  const controller = await start(bed);
  try {
    await Promise.race([untilPublished(bed.cluster, names), controller.ended]);
  } finally {
    await controller.stop();
  }
}

async function measureRound(bed: Bed, changes: number): Promise<Sample> {
  const controller = await start(bed);
  try {
    await controller.ready();
    await Promise.race([delay(SETTLE_MS), controller.ended]);
    const startCpu = cpuOf(controller.pid);
    const idle = await idleCpu(controller.pid, IDLE_MS);
    const cpuOfEach = async (write: () => Promise<void>): Promise<number> => {
      const [cpu, at] = [cpuOf(controller.pid), performance.now()];
      for (let number = 0; number < changes; number += 1) {
        await write();
        await Promise.race([delay(CHANGE_EVERY_MS), controller.ended]);
      }
      return (cpuOf(controller.pid) - cpu - idle * (performance.now() - at)) / changes;
    };
    // Services come before the changes: a minute after the changes, the old names disappear.
    const serviceCpu = await cpuOfEach(() => bed.ingresses.createService());
    await Promise.all(Array.from({ length: FIRST_CHANGES }, () => bed.nextChange().write()));
    await Promise.race([delay(PUBLISHED_MS), controller.ended]);
    return { startCpu, serviceCpu, changeCpu: await cpuOfEach(() => bed.nextChange().write()) };
  } finally {
    await controller.stop();
  }
}

function start(bed: Bed) {
  return serve(bed.cluster, "controller", [...settingsOf(bed), NO_LOOK_UPS], {
    program: { path: bed.program, tree: bed.tree },
  });
}

function reportSize(
  section: Readonly<Record<string, number | string>>,
  ours: readonly Sample[],
  before: readonly Sample[],
  report: Reporter,
): void {
  report.section(section);
  for (const key of ["startCpu", "changeCpu", "serviceCpu"] as const) {
    const name = { startCpu: "start-cpu", changeCpu: "change-cpu", serviceCpu: "service-cpu" }[key];
    const [mine, theirs] = [ours, before].map((samples) => samples.map((sample) => sample[key]));
    const ratios = (mine ?? []).map((value, round) => value / (theirs?.[round] ?? Number.NaN));
    const [cost, costBefore] = [percentile(mine ?? [], 0.5), percentile(theirs ?? [], 0.5)];
    report.figure({ name, value: cost, unit: "ms" });
    report.figure({ name: `${name}-before`, value: costBefore, unit: "ms" });
    if (Math.max(cost, costBefore) < NOTHING_MS) continue;
    report.figure({ name: `${name}-ratio`, value: percentile(ratios, 0.5), unit: "x", goal: MOST_OF_BEFORE });
    report.figure({ name: `${name}-ratio-p25`, value: percentile(ratios, 0.25), unit: "x" });
    report.figure({ name: `${name}-ratio-p75`, value: percentile(ratios, 0.75), unit: "x" });
  }
}
