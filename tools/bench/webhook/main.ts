import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { basename, resolve } from "node:path";
import { parseArgs } from "node:util";
import { chartEnv, chartFlags, ROOT } from "../chart.ts";
import { cpuOf } from "../process.ts";
import { createReporter, percentile, progress, type Reporter } from "../report.ts";
import { treeFile } from "../tree-file.ts";
import { measureBursts } from "./bursts/run.ts";
import { Connection, closedLoop, expect, nextUid, openLoop, type Shot, shotOf } from "./load.ts";
import { POD_SHAPES } from "./pods.ts";
import type { ServerOrder, ServerReady } from "./server.ts";

const RATE = 200;
const IP = "198.51.100.9";
/** Maximum number of names per pod: the default of the configuration. */
const CAP = 500;
/** Enough to keep the server always busy, but few enough that the client has idle time. */
const CONNECTIONS = 4;
const WARM_MS = 2_000;
/** After this many, V8 has compiled the hot code, even on a busy machine. */
const WARM_ADMISSIONS = 4_000;
/** Short, so that other work on the machine affects both sides of a pair equally. */
const ROUND_MS = 500;
/** Maximum CPU time of an admission, as a ratio to another checkout's. */
const MOST_OF_BEFORE = 1.05;

interface Options {
  readonly names: readonly number[];
  readonly seconds: number;
  readonly rounds: number;
  /** Another checkout. */
  readonly beside: string | undefined;
  /** Number of pods that are sent in bursts at the end; 0 for none. */
  readonly bursts: number;
}

/**
 * `npm run bench -- webhook [--json] [--names 10,1000,10000] [--seconds 10] [--rounds 25] [--beside TREE]
 * [--bursts PODS]`
 *
 * Measures the webhook and a bare node:https server, each in a separate process with the chart's Node flags. This
 * process generates the load. Latencies: `--seconds` at 200 admissions a second (open loop). The bare server's
 * latencies show the machine's part of them. Ratio: `--rounds` of half a second in turns (closed loop). With
 * `--beside`, another checkout's webhook, with its packages and its chart's flags, also takes turns in each round.
 * With `--bursts`, Go's HTTP client then creates this many pods in bursts (needs Go; 12 minutes for 100,000).
 */
export async function run(argv: string[]): Promise<void> {
  const { values } = parseArgs({
    args: argv,
    options: {
      json: { type: "boolean", default: false },
      names: { type: "string", default: "10,1000,10000" },
      seconds: { type: "string", default: "10" },
      rounds: { type: "string", default: "25" },
      beside: { type: "string" },
      bursts: { type: "string", default: "0" },
    },
  });
  const options = {
    names: values.names.split(",").map(Number),
    seconds: Number(values.seconds),
    rounds: Number(values.rounds),
    beside: values.beside === undefined ? undefined : resolve(values.beside),
    bursts: Number(values.bursts),
  };
  const report = createReporter("webhook", values.json);
  for (const count of options.names) {
    report.section({ names: count });
    await measure(count, options, report);
  }
}

async function measure(count: number, options: Options, report: Reporter): Promise<void> {
  const names = Array.from({ length: count }, (_, index) => `host-${index}.shop.example.com`).sort();
  await using webhook = await startServer({ kind: "webhook", names, ip: IP });
  const shots = POD_SHAPES.map(shotOf);
  const patch = await learnWebhook(webhook.ready, shots, names.slice(0, CAP));
  await using bare = await startServer({ kind: "bare", patch });
  const bareShots = POD_SHAPES.map(shotOf);
  await learnBare(bare.ready, bareShots);
  await using before =
    options.beside === undefined ? undefined : await startServer({ kind: "webhook", names, ip: IP }, options.beside);
  const beforeShots = POD_SHAPES.map(shotOf);
  if (before !== undefined) await learnWebhook(before.ready, beforeShots, names.slice(0, CAP));

  progress(`${count} names: ${options.seconds} s at ${RATE} admissions a second, each`);
  await warmUp(webhook.ready, shots);
  await warmUp(bare.ready, bareShots);
  if (before !== undefined) await warmUp(before.ready, beforeShots);
  reportLatencies(report, "admission", await openLoop(webhook.ready, shots, RATE, options.seconds * 1000), 10);
  reportLatencies(report, "bare", await openLoop(bare.ready, bareShots, RATE, options.seconds * 1000), undefined);

  progress(`${count} names: ${options.rounds} rounds of ${ROUND_MS} ms each against the bare server`);
  const ours: Side = { server: webhook, shots, rates: [], cpu: [] };
  const theirs: Side = { server: bare, shots: bareShots, rates: [], cpu: [] };
  const former: Side[] = before === undefined ? [] : [{ server: before, shots: beforeShots, rates: [], cpu: [] }];
  const sides = [ours, theirs, ...former];
  for (let round = 0; round < options.rounds; round += 1) {
    // The sides take turns, and the order changes each round.
    for (const side of round % 2 === 0 ? sides : [...sides].reverse()) {
      const { perSecond, cpuMicros } = await oneRound(side.server, side.shots);
      side.rates.push(perSecond);
      side.cpu.push(cpuMicros);
    }
  }
  const ratios = pairwise(ours.rates, theirs.rates);
  report.figure({ name: "patch-bytes", value: Buffer.byteLength(patch, "base64"), unit: "bytes" });
  report.figure({ name: "rate", value: percentile(ours.rates, 0.5), unit: "/s" });
  report.figure({ name: "bare-rate", value: percentile(theirs.rates, 0.5), unit: "/s" });
  report.figure({ name: "rate-ratio", value: percentile(ratios, 0.5), unit: "x", atLeast: 0.8 });
  report.figure({ name: "rate-ratio-p10", value: percentile(ratios, 0.1), unit: "x" });
  report.figure({ name: "rate-ratio-p90", value: percentile(ratios, 0.9), unit: "x" });
  report.figure({ name: "admission-cpu", value: percentile(ours.cpu, 0.5), unit: "µs" });
  report.figure({ name: "bare-cpu", value: percentile(theirs.cpu, 0.5), unit: "µs" });
  for (const { cpu } of former) reportBeside(basename(options.beside ?? ""), ours.cpu, cpu, report);
  if (options.bursts > 0) await measureBursts(webhook.ready, Math.min(count, CAP), options.bursts, report);
}

/** A server, its requests, and its results per round: admissions per second, and CPU microseconds per admission. */
interface Side {
  readonly server: Server;
  readonly shots: readonly Shot[];
  readonly rates: number[];
  readonly cpu: number[];
}

function pairwise(ours: readonly number[], theirs: readonly number[]): number[] {
  return ours.map((value, round) => value / (theirs[round] ?? Number.NaN));
}

function reportBeside(name: string, ours: readonly number[], theirs: readonly number[], report: Reporter): void {
  const ratios = pairwise(ours, theirs);
  report.figure({ name: `${name}-cpu`, value: percentile(theirs, 0.5), unit: "µs" });
  report.figure({ name: `cpu-to-${name}`, value: percentile(ratios, 0.5), unit: "x", goal: MOST_OF_BEFORE });
  report.figure({ name: `cpu-to-${name}-p25`, value: percentile(ratios, 0.25), unit: "x" });
  report.figure({ name: `cpu-to-${name}-p75`, value: percentile(ratios, 0.75), unit: "x" });
}

function reportLatencies(report: Reporter, of: string, latencies: readonly number[], goal: number | undefined): void {
  const unit = "ms";
  report.figure({ name: `${of}-p50`, value: percentile(latencies, 0.5), unit });
  report.figure({ name: `${of}-p99`, value: percentile(latencies, 0.99), unit, goal });
  report.figure({ name: `${of}-max`, value: Math.max(...latencies), unit });
}

interface Server extends AsyncDisposable {
  readonly pid: number;
  readonly ready: ServerReady;
}

async function startServer(order: ServerOrder, tree = ROOT): Promise<Server> {
  const child = fork(treeFile(tree, "tools/bench/webhook/server.ts", "bench/webhook-server.ts"), {
    execArgv: chartFlags("webhook", tree),
    env: { ...process.env, ...chartEnv("webhook", tree) },
  });
  child.send(order);
  const [ready] = (await Promise.race([once(child, "message"), failed(child)])) as [ServerReady];
  return {
    pid: child.pid ?? 0,
    ready,
    async [Symbol.asyncDispose]() {
      const ended = once(child, "exit");
      child.disconnect();
      await ended;
    },
  };
}

async function failed(child: ChildProcess): Promise<never> {
  const [code] = await once(child, "exit");
  throw new Error(`a server of the benchmark ended with ${code}`);
}

/**
 * Verifies one response to each shot, so that later responses can be compared byte by byte. Returns the first patch,
 * base64.
 */
async function learnWebhook(ready: ServerReady, shots: readonly Shot[], names: readonly string[]): Promise<string> {
  let first = "";
  for (const [shot, response] of await ask(ready, shots)) {
    const operations = JSON.parse(Buffer.from(response.patch, "base64").toString("utf8"));
    const hostnames = operations
      .filter(({ path }: { path: string }) => path.startsWith("/spec/hostAliases"))
      .flatMap(({ value }: { value: unknown }) => value)
      .flatMap((alias: { ip: string; hostnames: string[] }) => (alias.ip === IP ? alias.hostnames : []));
    if (!response.allowed || hostnames.join() !== names.join()) throw new Error(`a wrong answer to ${shot.title}`);
    if (first === "") first = response.patch;
  }
  return first;
}

async function learnBare(ready: ServerReady, shots: readonly Shot[]): Promise<void> {
  for (const [shot, response] of await ask(ready, shots)) {
    if (!response.allowed || !response.patch) throw new Error(`a wrong answer to ${shot.title}`);
  }
}

async function ask(ready: ServerReady, shots: readonly Shot[]) {
  const connection = await Connection.open(ready);
  const answers: Array<readonly [Shot, { allowed: boolean; patch: string }]> = [];
  for (const shot of shots) {
    const uid = nextUid();
    const body = await connection.send(shot, uid);
    const { response } = JSON.parse(body.toString("utf8"));
    if (response.uid !== uid) throw new Error(`the answer to ${shot.title} has another uid`);
    expect(shot, body, uid);
    answers.push([shot, response]);
  }
  connection.close();
  return answers;
}

async function warmUp(ready: ServerReady, shots: readonly Shot[]): Promise<void> {
  const connections = await openAll(ready);
  for (let answered = 0; answered < WARM_ADMISSIONS; ) {
    answered += (await closedLoop(connections, shots, WARM_MS)).answered;
  }
  for (const connection of connections) connection.close();
}

async function oneRound({ pid, ready }: Server, shots: readonly Shot[]) {
  const connections = await openAll(ready);
  const before = cpuOf(pid);
  const { perSecond, answered } = await closedLoop(connections, shots, ROUND_MS);
  const cpuMicros = ((cpuOf(pid) - before) * 1000) / answered;
  for (const connection of connections) connection.close();
  return { perSecond, cpuMicros };
}

function openAll(ready: ServerReady): Promise<Connection[]> {
  return Promise.all(Array.from({ length: CONNECTIONS }, () => Connection.open(ready)));
}
