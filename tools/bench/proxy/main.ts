import { execFileSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { cpus, release, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { progress } from "../report.ts";
import { startBackend, writeBodies } from "./backend.ts";
import { fetchOnce } from "./client.ts";
import { buildRelay, missing, PROGRAMS, type Program, type ProgramName, startProgram } from "./programs.ts";
import {
  bestPeer,
  evaluate,
  GOALS,
  type GoalResult,
  type Metric,
  pairedRatios,
  type Sample,
  type Spread,
  spreadOf,
  valuesOf,
} from "./ratios.ts";
import { WORKLOADS, type Workload, type WorkloadName } from "./workloads.ts";

/** The program that has to meet the goals. */
const OURS: ProgramName = "linux";
const TWO_WORKERS = "two-workers";
/** Minimum number of cores: two for the proxy, and at least as many for the load. */
const CORES_FOR_TWO_WORKERS = 4;
const IDLE_ROUNDS = 3;
const FIRST_PORT = 24_500;
const READY_MS = 30_000;

interface Options {
  readonly rounds: number;
  readonly seconds: number;
  readonly workloads: readonly string[];
  readonly programs: readonly ProgramName[];
  readonly beside: string | undefined;
  readonly json: string | undefined;
}

/**
 * `npm run bench -- proxy [--rounds 15] [--seconds 2] [--workloads close,keepalive,...] [--engines linux,nginx,...]
 * [--beside TREE] [--json FILE]`
 *
 * Each proxy runs as an unprivileged user on one core. wrk, the small clients and an nginx that expects the PROXY
 * header run on the other cores. All proxies keep running and take turns in each round. Each round starts with a
 * different one, so that other work on the machine affects all equally. The exit code says only whether all responses
 * were correct.
 */
export async function run(argv: string[]): Promise<void> {
  const options = optionsFrom(argv);
  const lack = missing(options.programs);
  if (lack !== undefined) throw new Error(lack);
  const folder = mkdtempSync(join(tmpdir(), "switchback-bench-"));
  // Unprivileged users read and write here.
  chmodSync(folder, 0o777);
  try {
    await measureAll(options, folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function optionsFrom(argv: string[]): Options {
  const names = [...Object.keys(WORKLOADS), TWO_WORKERS];
  const { values } = parseArgs({
    args: argv,
    options: {
      rounds: { type: "string", default: "15" },
      seconds: { type: "string", default: "2" },
      workloads: { type: "string", default: names.join() },
      engines: { type: "string", default: PROGRAMS.join() },
      beside: { type: "string" },
      json: { type: "string" },
    },
  });
  const [rounds, seconds] = [Number(values.rounds), Number(values.seconds)];
  for (const [name, value] of Object.entries({ rounds, seconds })) {
    if (!Number.isInteger(value) || value < 1) throw new Error(`--${name}: expected a whole number above 0`);
  }
  const workloads = listed("workloads", values.workloads, names);
  const hasBeside = values.beside !== undefined;
  const engines = listed("engines", values.engines, PROGRAMS);
  const programs = PROGRAMS.filter((name) => (name === "beside" ? hasBeside : engines.includes(name)));
  const beside = values.beside === undefined ? undefined : resolve(values.beside);
  return { rounds, seconds, workloads, programs, beside, json: values.json };
}

function listed<Name extends string>(option: string, text: string, names: readonly Name[]): Name[] {
  const wanted = text.split(",");
  const unknown = wanted.find((name) => !names.some((known) => known === name));
  if (unknown !== undefined) throw new Error(`--${option}: ${unknown} is none of ${names.join(", ")}`);
  return names.filter((name) => wanted.includes(name));
}

interface Cores {
  /** Core of the proxies. */
  readonly proxy: number;
  /** Cores of everything else, in taskset's format. */
  readonly load: string;
  readonly count: number;
}

/**
 * Gives the proxies the last core that this process may use, and the load the other ones. Pins this process to the
 * load's cores.
 */
function divideCores(): Cores {
  const pid = `${process.pid}`;
  const text = execFileSync("taskset", ["-cp", pid], { encoding: "utf8" }).split(":").at(-1)?.trim() ?? "";
  const all = text.split(",").flatMap((part) => {
    const [first = 0, last = first] = part.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, index) => first + index);
  });
  const proxy = all.at(-1) ?? 0;
  const load = all.length > 1 ? all.slice(0, -1).join() : `${proxy}`;
  execFileSync("taskset", ["-a", "-cp", load, pid], { stdio: "ignore" });
  return { proxy, load, count: all.length };
}

async function measureAll(options: Options, folder: string): Promise<void> {
  const cores = divideCores();
  writeBodies(folder);
  if (options.programs.includes("relay")) buildRelay(folder);
  const bench = new Bench(options, folder, cores);
  // After the first signal, the results so far are still printed. A second signal ends this process and its children
  // at once.
  const interrupt = (): void => {
    bench.interrupt();
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, interrupt);
  try {
    await bench.run();
  } finally {
    await bench.stop();
  }
  bench.print();
}

class Bench {
  readonly #options: Options;
  readonly #folder: string;
  readonly #cores: Cores;
  readonly #running: { stop(): Promise<unknown> }[] = [];
  readonly #samples = new Map<string, Sample[]>();
  readonly #rates = new Map<ProgramName, number>();
  readonly #startedAt = performance.now();
  #isInterrupted = false;
  #upstreamPort = 0;
  #nextPort = FIRST_PORT + Math.floor(Math.random() * 5_000);

  constructor(options: Options, folder: string, cores: Cores) {
    this.#options = options;
    this.#folder = folder;
    this.#cores = cores;
  }

  interrupt(): void {
    this.#isInterrupted = true;
  }

  async stop(): Promise<void> {
    for (const running of this.#running.reverse()) await running.stop();
  }

  async run(): Promise<void> {
    this.#upstreamPort = await this.#port();
    this.#running.push(startBackend(this.#folder, this.#upstreamPort, this.#cores.load));
    const programs: Program[] = [];
    for (const name of this.#options.programs) {
      const program = await this.#start(name, 1, this.#cores.proxy);
      this.#running.push(program);
      programs.push(program);
    }
    const steady = this.#wanted().filter(([, workload]) => workload.isFresh !== true);
    for (const [name, workload] of steady) {
      progress(`warm-up: ${name}`);
      if (this.#isInterrupted) return;
      for (const program of programs) await this.#measure(workload, program);
    }
    for (let round = 0; round < this.#options.rounds; round += 1) {
      const minutes = ((performance.now() - this.#startedAt) / 60_000).toFixed(1);
      progress(`round ${round + 1} of ${this.#options.rounds}, after ${minutes} minutes`);
      for (const [name, workload] of steady) {
        if (this.#isInterrupted) return;
        for (const program of rotated(programs, round)) {
          this.#add(name, { ...(await this.#measure(workload, program)), round, program: program.name });
        }
      }
    }
    await this.#idle();
    await this.#twoWorkers();
  }

  /** Measures new processes, in fewer rounds: memory does not depend on other work on the machine. */
  async #idle(): Promise<void> {
    const workload = this.#wanted().find(([, each]) => each.isFresh === true);
    if (workload === undefined) return;
    for (let round = 0; round < Math.min(IDLE_ROUNDS, this.#options.rounds); round += 1) {
      progress(`memory of idle connections: round ${round + 1}`);
      for (const name of this.#options.programs) {
        if (this.#isInterrupted) return;
        const program = await this.#start(name, 1, this.#cores.proxy);
        const measured = await this.#measure(workload[1], program).finally(() => program.stop());
        this.#add(workload[0], { ...measured, round, program: name });
      }
    }
  }

  async #twoWorkers(): Promise<void> {
    if (!this.#options.workloads.includes(TWO_WORKERS) || !this.#options.programs.includes(OURS)) return;
    if (this.#cores.count < CORES_FOR_TWO_WORKERS) return;
    const both = [await this.#start(OURS, 1, undefined), await this.#start(OURS, 2, undefined)];
    this.#running.push(...both);
    for (let round = 0; round < this.#options.rounds; round += 1) {
      const rates: number[] = [];
      for (const program of both) rates.push((await this.#measure(WORKLOADS.close, program)).rate ?? Number.NaN);
      const [one = Number.NaN, two = Number.NaN] = rates;
      this.#add(TWO_WORKERS, { round, program: OURS, cost: Number.NaN, rate: two / one });
    }
  }

  print(): void {
    const minutes = ((performance.now() - this.#startedAt) / 60_000).toFixed(1);
    const machine = `${cpus().length} cores of ${cpus()[0]?.model.trim()}, Linux ${release()}, Node ${process.version}`;
    const { rounds, seconds } = this.#options;
    const lines = [`proxy: ${machine}; ${rounds} rounds of ${seconds} s a program, ${minutes} minutes`];
    for (const [name, samples] of this.#samples) if (name !== TWO_WORKERS) lines.push(...table(name, samples));
    const results = GOALS.map((goal) => evaluate(goal, this.#samples.get(goal.workload) ?? [], OURS));
    lines.push("", `${OURS} against the goals; ratios are medians of paired rounds [quartiles]`);
    lines.push(...results.map((result) => resultLine(result, this.#cores.count)));
    process.stdout.write(`${lines.join("\n")}\n`);
    if (this.#options.json === undefined) return;
    const samples = Object.fromEntries(this.#samples);
    const report = { bench: "proxy", machine, rounds, seconds, minutes: Number(minutes), results, samples };
    writeFileSync(this.#options.json, `${JSON.stringify(report, undefined, 1)}\n`);
  }

  #wanted(): [WorkloadName, Workload][] {
    const { workloads } = this.#options;
    return (Object.entries(WORKLOADS) as [WorkloadName, Workload][]).filter(([name]) => workloads.includes(name));
  }

  #measure(workload: Workload, program: Program) {
    const { seconds } = this.#options;
    return workload.run(program, { folder: this.#folder, seconds, rates: this.#rates });
  }

  #add(workload: string, sample: Sample): void {
    const samples = this.#samples.get(workload) ?? [];
    this.#samples.set(workload, samples);
    samples.push(sample);
  }

  async #start(name: ProgramName, workers: number, cpu: number | undefined): Promise<Program> {
    const port = await this.#port();
    const [folder, upstreamPort, { beside }] = [this.#folder, this.#upstreamPort, this.#options];
    const program = startProgram(name, { folder, port, upstreamPort, cpu, workers, beside });
    const deadline = performance.now() + READY_MS;
    while (performance.now() < deadline) {
      const isReady = await Promise.race([
        fetchOnce(port, "small").then(
          () => true,
          () => false,
        ),
        program.ended,
      ]);
      if (isReady) return program;
      await delay(50);
    }
    await program.stop();
    throw new Error(`${name} does not answer after ${READY_MS / 1_000} s; see ${this.#folder}`);
  }

  async #port(): Promise<number> {
    for (;;) {
      const port = this.#nextPort++;
      const server = createServer();
      const isFree = await new Promise<boolean>((resolve) => {
        server.once("error", () => resolve(false));
        server.listen(port, () => server.close(() => resolve(true)));
      });
      if (isFree) return port;
    }
  }
}

/**
 * Each round starts with a different item, and every other round is in reverse order. So no item always follows the
 * same one.
 */
function rotated<Item>(items: readonly Item[], round: number): Item[] {
  const start = round % Math.max(1, items.length);
  const order = [...items.slice(start), ...items.slice(0, start)];
  return Math.floor(round / Math.max(1, items.length)) % 2 === 0 ? order : order.reverse();
}

function table(name: string, samples: readonly Sample[]): string[] {
  const { unit, rateUnit, full }: Workload = WORKLOADS[name as WorkloadName];
  const best = bestPeer(samples, "cost");
  const lines = ["", `${name}${best === undefined ? "" : ` (cheapest peer: ${best})`}`];
  for (const program of PROGRAMS) {
    if (valuesOf(samples, program, "cost").length === 0) continue;
    const cell = (metric: Metric, text: string): string => {
      const values = valuesOf(samples, program, metric);
      return values.length === 0 ? "" : `${digits(spreadOf(values).median).padStart(8)} ${text}`;
    };
    const [cost, rate] = [valuesOf(samples, program, "cost"), valuesOf(samples, program, "rate")];
    const share =
      full === undefined ? "" : `core ${Math.round((spreadOf(cost).median * spreadOf(rate).median * 100) / full)} %`;
    const columns = [cell("cost", unit), cell("rate", rateUnit), cell("p99", "ms p99"), share];
    const ratios = (["cost", "rate", "p99"] as const)
      .map((metric) => [metric, spreadOf(pairedRatios(samples, [OURS, program], metric))] as const)
      .filter(([, { count }]) => count > 0 && program !== OURS)
      .map(([metric, spread]) => `${metric} ${ratio(spread)}`);
    const against = ratios.length === 0 ? "" : `   ${OURS}/${program}: ${ratios.join(", ")}`;
    lines.push(`  ${program.padEnd(15)}${columns.map((column) => column.padEnd(17)).join("")}${against}`.trimEnd());
  }
  return lines;
}

function resultLine(
  { workload, metric, against, goal, floor, peer, spread, outcome }: GoalResult,
  cores: number,
): string {
  const than = against === "best-peer" ? `best peer${peer === undefined ? "" : ` (${peer})`}` : against;
  const what = `${workload} ${metric}${against === "nothing" ? "" : ` / ${than}`}`;
  if (workload === TWO_WORKERS && cores < CORES_FOR_TWO_WORKERS) {
    const needed = `two workers and their load need ${CORES_FOR_TWO_WORKERS} cores, here are ${cores}`;
    return `  ${what.padEnd(42)} not measured: ${needed}`;
  }
  const measured = outcome === "not measured" ? "" : `${ratio(spread)}   goal ${goal}, floor ${floor}: `;
  return `  ${what.padEnd(42)} ${measured}${outcome}`;
}

function ratio({ median, low, high }: Spread): string {
  return `${median.toFixed(2)} [${low.toFixed(2)}-${high.toFixed(2)}]`;
}

function digits(value: number): string {
  return Math.abs(value) >= 100 ? String(Math.round(value)) : value.toPrecision(3);
}
