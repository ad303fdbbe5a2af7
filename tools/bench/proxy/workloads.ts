import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { cpuOf, memoryOf } from "../process.ts";
import { BODIES, type Body } from "./backend.ts";
import { fetchMany, fetchOnce, openIdle, StalledPeers } from "./client.ts";
import type { Program, ProgramName } from "./programs.ts";

const WRK_CONNECTIONS = 32;
const BULK_STREAMS = 4;
const IDLE_CONNECTIONS = 5_000;
/** Enough connections to load and warm up every part of a program before its memory is measured. */
const IDLE_WARM_UP = 3_000;
const STALLED_SHARE = 0.01;
/** Assumed rate before a rate is known. */
const USUAL_RATE = 8_000;
/** Time in which the proxy waits for first bytes to send with the header, and does other work after the accept. */
const SETTLE_MS = 1_000;

interface Measured {
  readonly cost: number;
  readonly rate?: number;
  readonly p99?: number;
}

interface LoadPlace {
  /** The folder whose `www` has the bodies. */
  readonly folder: string;
  readonly seconds: number;
  /** Connections per second that each program last achieved; updated by the workloads. */
  readonly rates: Map<ProgramName, number>;
}

export interface Workload {
  /** Unit that `cost` counts. */
  readonly unit: string;
  /** Unit that `rate` counts. */
  readonly rateUnit: string;
  /** `cost` times `rate` at which the proxy's core is full. Below it, the load limits the rate. */
  readonly full?: number;
  /** Whether each measurement needs a new process, because a process keeps memory that it once used. */
  readonly isFresh?: boolean;
  run(program: Program, place: LoadPlace): Promise<Measured>;
}

export const WORKLOADS = {
  close: {
    unit: "µs/conn",
    rateUnit: "conn/s",
    full: 1e6,
    async run(program, place) {
      const measured = await withWrk(program, place, "small", true);
      place.rates.set(program.name, measured.rate);
      return measured;
    },
  },
  keepalive: {
    unit: "µs/req",
    rateUnit: "req/s",
    full: 1e6,
    run: (program, place) => withWrk(program, place, "small", false),
  },
  "64k": {
    unit: "µs/req",
    rateUnit: "req/s",
    full: 1e6,
    run: (program, place) => withWrk(program, place, "64k", true),
  },
  bulk: { unit: "ms/GB", rateUnit: "GB/s", full: 1e3, run: bulk },
  churn: { unit: "µs/conn", rateUnit: "conn/s", full: 1e6, run: churn },
  idle: { unit: "KiB/conn", rateUnit: "", isFresh: true, run: idle },
} as const satisfies Record<string, Workload>;
export type WorkloadName = keyof typeof WORKLOADS;

function cpuOfAll(program: Program): number {
  return program.pids().reduce((sum, pid) => sum + cpuOf(pid), 0);
}

interface WrkResult {
  readonly requests: number;
  readonly micros: number;
  readonly p99: number;
  readonly wrong: number;
  readonly failed: number;
}

async function withWrk(
  program: Program,
  place: LoadPlace,
  body: Body,
  isClosing: boolean,
): Promise<Required<Measured>> {
  const before = cpuOfAll(program);
  const result = await wrk(program, place, body, isClosing);
  const cpu = cpuOfAll(program) - before;
  const seconds = result.micros / 1e6;
  return { cost: (cpu * 1_000) / result.requests, rate: result.requests / seconds, p99: result.p99 / 1_000 };
}

async function wrk(program: Program, place: LoadPlace, body: Body, isClosing: boolean): Promise<WrkResult> {
  const script = join(import.meta.dirname, "wrk-check.lua");
  const header = isClosing ? ["-H", "Connection: close"] : [];
  const shape = ["-t1", `-c${WRK_CONNECTIONS}`, `-d${place.seconds}s`, "--timeout", "10s", "--latency"];
  const url = `http://127.0.0.1:${program.port}/${body}`;
  const child = spawn("wrk", [...shape, ...header, "-s", script, url, "--", join(place.folder, "www", body)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  const [code] = await Promise.race([once(child, "close"), program.ended]);
  const line = output.split("\n").find((each) => each.startsWith("{"));
  if (code !== 0 || line === undefined) throw new Error(`wrk ended with ${code}:\n${output}`);
  const result: WrkResult = JSON.parse(line);
  if (result.wrong > 0 || result.failed > 0 || result.requests === 0) {
    throw new Error(`${program.name}, ${url}: ${result.wrong} wrong answers, ${result.failed} failed: ${line}`);
  }
  return result;
}

async function bulk(program: Program): Promise<Measured> {
  const [before, at] = [cpuOfAll(program), performance.now()];
  await Promise.race([
    Promise.all(Array.from({ length: BULK_STREAMS }, () => fetchOnce(program.port, "bulk"))),
    program.ended,
  ]);
  const cpu = cpuOfAll(program) - before;
  const gigabytes = (BULK_STREAMS * BODIES.bulk) / 1e9;
  return { cost: cpu / gigabytes, rate: gigabytes / ((performance.now() - at) / 1_000) };
}

/** `close` with one stalled peer per hundred connections. Stalled peers must not slow down the others. */
async function churn(program: Program, place: LoadPlace): Promise<Measured> {
  const peers = new StalledPeers(program.port);
  const before = cpuOfAll(program);
  peers.start((place.rates.get(program.name) ?? USUAL_RATE) * STALLED_SHARE);
  const result = await wrk(program, place, "small", true);
  await Promise.race([peers.stop(), program.ended]);
  const cpu = cpuOfAll(program) - before;
  const rate = result.requests / (result.micros / 1e6);
  place.rates.set(program.name, rate);
  return { cost: (cpu * 1_000) / (result.requests + peers.started), rate, p99: result.p99 / 1_000 };
}

/**
 * Growth of the program's own resident memory per idle connection. The kernel's memory for the sockets is the same
 * for all programs.
 */
async function idle(program: Program): Promise<Measured> {
  const memory = (): number => program.pids().reduce((sum, pid) => sum + memoryOf(pid).rss, 0);
  await fetchMany(program.port, IDLE_WARM_UP, "small", WRK_CONNECTIONS);
  await delay(SETTLE_MS);
  const before = memory();
  const clients = await openIdle(program.port, IDLE_CONNECTIONS);
  await delay(SETTLE_MS);
  const grown = memory() - before;
  // Checks that the connections work.
  for (let index = 0; index < clients.length; index += 100) {
    await Promise.all(clients.slice(index, index + 100).map((client) => client.get("small", false)));
  }
  for (const { socket } of clients) socket.destroy();
  return { cost: (grown * 1024) / IDLE_CONNECTIONS };
}
