import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { fuzz, type SurfaceReport } from "../../fuzz/fuzz.ts";
import { SURFACES } from "../../fuzz/surfaces.ts";
import type { Profile } from "../system-options.ts";
import { type Attack, attempt, type Report } from "./attack.ts";
import { ADDED_CONFIG, attacksOn } from "./attacks.ts";
import { fuzzPorts } from "./ports.ts";
import { type Stage, startStage } from "./stage.ts";

const ADMISSIONS_PER_SECOND = 200;
/** Milliseconds of admissions before the first attack, because a webhook that has just started is slower. */
const WARM_UP_MS = 3_000;
/** Maximum CPU time for one input, in milliseconds. */
const MAX_MS = 50;
const OPTIONS = {
  help: { type: "boolean" },
  minutes: { type: "string", default: "0" },
  profile: { type: "string", default: "default" },
} as const;

const USAGE = `npm run attack -- [FILTER...]
Attacks Switchback on a real API server as a tenant, as a root container, as a client and with stolen tokens, and
prints the results.
  FILTER       runs only attacks whose name contains FILTER; repeat it to run more
  --profile small  attacks an install with the chart's profile small
  --minutes N  then tries mutated input for N minutes: half of the time in this process, half at the open ports.
`;

/** A table with one line per attack. */
function tableOf(reports: readonly Report[]): string {
  const head = ["attack", "by", "tried", "outcome", "admissions (failed, late), p99", "peak MiB"];
  const rows = reports.map(({ attack, held, tried, outcome, load, peaks }) => [
    attack.name,
    attack.by,
    tried,
    held ? outcome : `HARM: ${outcome}`,
    `${load.admissions} (${load.failed}, ${load.late}), ${load.p99.toFixed(0)} ms`,
    Object.entries(peaks)
      .map(([name, mib]) => `${name} ${mib}`)
      .join(", "),
  ]);
  return [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

async function warmStage(profile: Profile): Promise<Stage> {
  const stage = await startStage({ rate: ADMISSIONS_PER_SECOND, profile, config: ADDED_CONFIG });
  const load = stage.neighbours.start();
  await delay(WARM_UP_MS);
  await load.stop();
  return stage;
}

/** Runs the attacks. If an attack did harm, the next one gets a new stage. */
async function runAll(attacks: readonly Attack[], profile: Profile): Promise<Report[]> {
  const reports: Report[] = [];
  let stage: Stage | undefined;
  try {
    for (const attack of attacks) {
      stage ??= await warmStage(profile);
      const report = await attempt(stage, attack, ({ failed, late }) => failed + late > 0);
      process.stderr.write(`${report.held ? "held" : "HARM"}: ${attack.name} (${report.seconds.toFixed(0)} s)\n`);
      reports.push(report);
      if (report.held) continue;
      await stage.stop();
      stage = undefined;
    }
    return reports;
  } finally {
    await stage?.stop();
  }
}

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({ allowPositionals: true, options: OPTIONS });
  if (values.help) {
    process.stdout.write(USAGE);
    return 0;
  }
  const { profile } = values;
  if (profile !== "default" && profile !== "small") throw new Error(`--profile ${profile}: must be default or small`);
  const wanted = attacksOn(profile).filter(
    ({ name }) => positionals.length === 0 || positionals.some((part) => name.includes(part)),
  );
  const milliseconds = Number(values.minutes) * 60_000;
  if (!(milliseconds >= 0)) throw new Error(`--minutes ${values.minutes}: must be a number of minutes, 0 or more`);
  const reports = await runAll(wanted, profile);
  process.stdout.write(`${tableOf(reports)}\n`);
  let faults = 0;
  if (milliseconds > 0) {
    const surfaces = fuzzSurfaces(milliseconds / 2);
    process.stdout.write(`\n${surfaceTable(surfaces)}\n`);
    faults = surfaces.flatMap((surface) => surface.faults).length;
    reports.push(...(await runAll([portAttack(milliseconds / 2)], profile)));
    process.stdout.write(`\n${tableOf(reports.slice(-1))}\n`);
  }
  return faults === 0 && reports.every(({ held }) => held) ? 0 : 1;
}

/** Half of the time goes to admission reviews, because every user who may create pods controls their content. */
function fuzzSurfaces(milliseconds: number): SurfaceReport[] {
  const seed = Math.floor(Date.now() / 1000);
  process.stderr.write(`mutated input for ${(milliseconds / 60_000).toFixed(1)} min, seed ${seed}\n`);
  return SURFACES.map((surface, index) => {
    const share = index === 0 ? milliseconds / 2 : milliseconds / 2 / (SURFACES.length - 1);
    const deadline = performance.now() + share;
    const report = fuzz(surface, seed, MAX_MS, () => performance.now() >= deadline);
    process.stderr.write(`${surface.name}: ${report.inputs} inputs, ${report.faults.length} faults\n`);
    return report;
  });
}

function surfaceTable(reports: readonly SurfaceReport[]): string {
  const rows = reports.map(({ name, inputs, worstMs, faults }) => {
    const found = faults.map(({ input, what }) => `input ${input}: ${what.split("\n", 1)[0]}`);
    return `| ${name} | ${inputs} | ${worstMs.toFixed(1)} ms | ${found.join("; ") || "none"} |`;
  });
  return ["| mutated input | inputs | maximum CPU time of one | faults |", "| --- | --- | --- | --- |", ...rows].join(
    "\n",
  );
}

function portAttack(milliseconds: number): Attack {
  return {
    name: "mutated bytes at every port",
    by: "client",
    async run(stage) {
      const connections = await fuzzPorts(stage, milliseconds, Math.floor(Date.now() / 1000));
      return { tried: `${connections} connections`, outcome: "every component answers its probes" };
    },
  };
}

process.exitCode = await main();
