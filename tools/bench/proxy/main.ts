import { execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { chmodSync, mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { Processes } from "#test/cluster/processes.ts";
import { cpuOf, memoryOf } from "../process.ts";
import { medianRatio, percentile, progress, type Reporter } from "../report.ts";
import {
  missing,
  type Place,
  PROGRAMS,
  type Program,
  type ProgramName,
  startBackend,
  startProgram,
} from "./programs.ts";

/** What wrk does. Each answer is a known body. */
const WORKLOADS = {
  close: { body: "small", isClosing: true },
  keepalive: { body: "small", isClosing: false },
  "64k": { body: "64k", isClosing: true },
} as const;
type WorkloadName = keyof typeof WORKLOADS;

const BODIES = { small: 128, "64k": 64 * 1024 };
const WRK_CONNECTIONS = 32;
const IDLE_CONNECTIONS = 5_000;
const IDLE_BATCH = 100;
/** Time in which the proxy waits for first bytes to send with the header, and does other work after the accept. */
const SETTLE_MS = 1_000;

/** CPU time of a request in microseconds, requests a second, and the slow end of the latency in milliseconds. */
interface Sample {
  readonly cpu: number;
  readonly rate: number;
  readonly p99: number;
}

interface Options {
  readonly workloads: readonly WorkloadName[];
  readonly programs: readonly ProgramName[];
  readonly rounds: number;
  readonly seconds: number;
}

/**
 * `npm run bench -- proxy [--rounds 9] [--seconds 2] [--workloads close,keepalive,64k] [--engines linux,nginx,...]`
 *
 * Each proxy runs as an unprivileged user on one core. wrk and an nginx that demands the PROXY header run on the other
 * cores. wrk compares every answer. All proxies keep running and take turns, and each round starts with a different
 * one. A ratio is the median of paired rounds. Then the memory of an idle connection, in new processes.
 */
export async function run(args: string[], report: Reporter): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      rounds: { type: "string", default: "9" },
      seconds: { type: "string", default: "2" },
      workloads: { type: "string", default: Object.keys(WORKLOADS).join() },
      engines: { type: "string", default: PROGRAMS.join() },
    },
  });
  const lack = missing();
  if (lack !== undefined) throw new Error(lack);
  const options: Options = {
    workloads: listed("workloads", values.workloads, Object.keys(WORKLOADS) as WorkloadName[]),
    programs: listed("engines", values.engines, PROGRAMS),
    rounds: Number(values.rounds),
    seconds: Number(values.seconds),
  };
  const folder = mkdtempSync(join(tmpdir(), "switchback-bench-"));
  chmodSync(folder, 0o755);
  for (const name of ["logs", "www"]) mkdirSync(join(folder, name));
  for (const [name, size] of Object.entries(BODIES)) writeFileSync(join(folder, "www", name), randomBytes(size));
  const processes = new Processes(folder, join(folder, "logs"));
  try {
    const place = { folder, processes, cores: divideCores() };
    const upstreamPort = await startBackend(place);
    await measureWorkloads(place, upstreamPort, options, report);
    await measureIdle(place, upstreamPort, options.programs, report);
  } finally {
    await processes.close(false);
  }
}

function listed<Name extends string>(option: string, text: string, names: readonly Name[]): Name[] {
  const wanted = text.split(",");
  const unknown = wanted.find((name) => !names.some((known) => known === name));
  if (unknown !== undefined) throw new Error(`--${option}: ${unknown} is none of ${names.join(", ")}`);
  return names.filter((name) => wanted.includes(name));
}

/** The proxies get the last core that this process may use, the load all others. This process gets the load's cores. */
function divideCores(): Place["cores"] {
  const pid = `${process.pid}`;
  const allowed = execFileSync("taskset", ["-cp", pid], { encoding: "utf8" }).split(":").at(-1)?.trim() ?? "";
  const all = allowed.split(",").flatMap((part) => {
    const [first = 0, last = first] = part.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, index) => first + index);
  });
  const proxy = String(all.at(-1));
  const load = all.length > 1 ? all.slice(0, -1).join() : proxy;
  execFileSync("taskset", ["-a", "-cp", load, pid], { stdio: "ignore" });
  return { proxy, load };
}

async function measureWorkloads(place: Place, upstreamPort: number, options: Options, report: Reporter): Promise<void> {
  const programs: Program[] = [];
  for (const name of options.programs) programs.push(await startProgram(place, name, upstreamPort));
  for (const workload of options.workloads) {
    const samples = new Map<ProgramName, Sample[]>(options.programs.map((name) => [name, []]));
    // The first round only warms up.
    for (let round = 0; round <= options.rounds; round += 1) {
      progress(`${workload}, round ${round} of ${options.rounds}`);
      const first = round % programs.length;
      for (const program of [...programs.slice(first), ...programs.slice(0, first)]) {
        const sample = await withWrk(place, program, workload, options.seconds);
        if (round > 0) samples.get(program.name)?.push(sample);
      }
    }
    report.section({ workload });
    reportSamples(samples, report);
  }
  for (const { process } of programs) await process.stop();
}

/** Each figure of each program, and the linux engine's share of it. */
function reportSamples(samples: ReadonlyMap<ProgramName, readonly Sample[]>, report: Reporter): void {
  for (const [name, unit] of [["cpu", "µs"] as const, ["rate", "/s"] as const, ["p99", "ms"] as const]) {
    const valuesOf = (program: ProgramName) => samples.get(program)?.map((sample) => sample[name]) ?? [];
    for (const program of samples.keys()) report.figure(`${program}-${name}`, percentile(valuesOf(program), 0.5), unit);
    for (const peer of samples.keys()) {
      if (peer === "linux" || !samples.has("linux")) continue;
      report.figure(`linux-${name}-to-${peer}`, medianRatio(valuesOf("linux"), valuesOf(peer)), "x");
    }
  }
}

/** Throws if an answer is wrong or a connection failed. */
async function withWrk(place: Place, program: Program, workload: WorkloadName, seconds: number): Promise<Sample> {
  const { body, isClosing } = WORKLOADS[workload];
  const header = isClosing ? ["-H", "Connection: close"] : [];
  const shape = ["-t1", `-c${WRK_CONNECTIONS}`, `-d${seconds}s`, "--timeout", "10s", "--latency"];
  const check = ["-s", join(import.meta.dirname, "check.lua"), `http://127.0.0.1:${program.port}/${body}`];
  const args = [...shape, ...header, ...check, "--", join(place.folder, "www", body)];
  const before = cpuOf(...program.pids());
  const child = spawn("wrk", args, { stdio: ["ignore", "pipe", "inherit"] });
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, "close")]);
  const line = output.split("\n").find((each) => each.startsWith("{"));
  if (code !== 0 || line === undefined) throw new Error(`wrk ended with ${code}:\n${output}`);
  const { requests, micros, p99, wrong, failed } = JSON.parse(line);
  if (wrong > 0 || failed > 0 || requests === 0) throw new Error(`${program.name}, ${workload}: ${line}`);
  const cpu = ((cpuOf(...program.pids()) - before) * 1_000) / requests;
  return { cpu, rate: (requests * 1e6) / micros, p99: p99 / 1_000 };
}

/** The growth of a program's own memory by an idle connection. The kernel's memory is the same for all programs. */
async function measureIdle(
  place: Place,
  upstreamPort: number,
  programs: readonly ProgramName[],
  report: Reporter,
): Promise<void> {
  report.section({ connections: IDLE_CONNECTIONS });
  for (const name of programs) {
    progress(`idle connections: ${name}`);
    const program = await startProgram(place, name, upstreamPort);
    const memory = () => program.pids().reduce((sum, pid) => sum + memoryOf(pid).rss, 0);
    // Loads every part of the program before its memory is measured.
    await withWrk(place, program, "close", 1);
    await delay(SETTLE_MS);
    const before = memory();
    const sockets: Socket[] = [];
    while (sockets.length < IDLE_CONNECTIONS) {
      const batch = Array.from({ length: IDLE_BATCH }, () => connect(program.port, "127.0.0.1"));
      await Promise.all(batch.map((socket) => once(socket, "connect")));
      sockets.push(...batch);
    }
    await delay(SETTLE_MS);
    report.figure(`${name}-memory`, ((memory() - before) * 1e6) / 1_024 / IDLE_CONNECTIONS, "KiB");
    if (sockets.some(({ readyState }) => readyState !== "open")) throw new Error(`${name} closed idle connections`);
    for (const socket of sockets) socket.destroy();
    await program.process.stop();
  }
}
