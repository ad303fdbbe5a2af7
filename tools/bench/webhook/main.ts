import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { cpuOf } from "../process.ts";
import { medianRatio, percentile, progress, type Reporter, reportTimes } from "../report.ts";
import { chartFlags, MALLOC_ENV } from "../serve.ts";
import { Connection, closedLoop, openLoop, type Shot, shotOf } from "./load.ts";
import { PODS } from "./pod.ts";
import type { ServerOrder, ServerReady } from "./server.ts";

const RATE = 200;
const IP = "198.51.100.9";
/** Maximum number of names per pod: the default of the configuration. */
const CAP = 500;
/** Enough to keep the server always busy, but few enough that the client has idle time. */
const CONNECTIONS = 4;
/** After this many, V8 has compiled the hot code, even on a busy machine. */
const WARM_ADMISSIONS = 4_000;
/** Short, so that other work on the machine affects both sides of a pair equally. */
const ROUND_MS = 500;

/**
 * `npm run bench -- webhook [--names 10,1000,10000] [--seconds 10] [--rounds 25]`
 *
 * Measures the webhook and a bare node:https server, each in a separate process with the chart's Node flags. This
 * process generates the load. Latencies: `--seconds` at 200 admissions a second. Rates: `--rounds` of half a second in
 * turns, each connection sends its next request at once.
 */
export async function run(args: string[], report: Reporter): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      names: { type: "string", default: "10,1000,10000" },
      seconds: { type: "string", default: "10" },
      rounds: { type: "string", default: "25" },
    },
  });
  for (const count of values.names.split(",").map(Number)) {
    report.section({ names: count });
    await measure(count, { seconds: Number(values.seconds), rounds: Number(values.rounds) }, report);
  }
}

/** A server with its requests, and its results in each round. */
interface Side extends AsyncDisposable {
  readonly pid: number;
  readonly ready: ServerReady;
  readonly shots: readonly Shot[];
  readonly perSecond: number[];
  /** CPU time of an admission, microseconds. */
  readonly cpu: number[];
}

async function measure(count: number, options: { seconds: number; rounds: number }, report: Reporter): Promise<void> {
  const { seconds, rounds } = options;
  const names = Array.from({ length: count }, (_, index) => `host-${index}.shop.example.com`).sort();
  await using webhook = await start({ kind: "webhook", names, ip: IP });
  const patch = await learnPatch(webhook, names.slice(0, CAP));
  await using bare = await start({ kind: "bare", patch });
  await learnPatch(bare, undefined);

  progress(`${count} names: ${seconds} s at ${RATE} admissions a second, each`);
  for (const side of [webhook, bare]) await warmUp(side);
  for (const [name, side] of [["admission", webhook] as const, ["bare", bare] as const]) {
    reportTimes(report, name, await openLoop(side.ready, side.shots, { rate: RATE, ms: seconds * 1_000 }));
  }
  progress(`${count} names: ${rounds} rounds of ${ROUND_MS} ms each`);
  for (let round = 0; round < rounds; round += 1) {
    for (const side of round % 2 === 0 ? [webhook, bare] : [bare, webhook]) await measureRound(side);
  }
  report.figure("patch-bytes", Buffer.byteLength(patch, "base64"), "bytes");
  report.figure("rate", percentile(webhook.perSecond, 0.5), "/s");
  report.figure("bare-rate", percentile(bare.perSecond, 0.5), "/s");
  report.figure("rate-to-bare", medianRatio(webhook.perSecond, bare.perSecond), "x");
  report.figure("admission-cpu", percentile(webhook.cpu, 0.5), "µs");
  report.figure("bare-cpu", percentile(bare.cpu, 0.5), "µs");
}

async function start(order: ServerOrder): Promise<Side> {
  const child = fork(join(import.meta.dirname, "server.ts"), {
    execArgv: chartFlags("webhook"),
    env: { ...process.env, ...MALLOC_ENV },
  });
  const failed = once(child, "exit").then(([code]): never => {
    throw new Error(`a server of the bench ended with ${code}`);
  });
  failed.catch(() => {});
  child.send(order);
  const [ready] = (await Promise.race([once(child, "message"), failed])) as [ServerReady];
  return {
    pid: child.pid ?? 0,
    ready,
    shots: PODS.map(shotOf),
    perSecond: [],
    cpu: [],
    async [Symbol.asyncDispose]() {
      const ended = once(child, "exit");
      child.disconnect();
      await ended;
    },
  };
}

/**
 * Verifies one answer to each shot, so that later answers can be compared byte by byte: with `names`, a pod gets these.
 * Returns the first patch, base64.
 */
async function learnPatch({ ready, shots }: Side, names: readonly string[] | undefined): Promise<string> {
  const connection = await Connection.open(ready);
  const patches: string[] = [];
  for (const shot of shots) {
    const { allowed, patch } = await connection.learn(shot);
    if (!allowed || !isRight(patch, names)) throw new Error(`a wrong answer: ${allowed}, ${patch}`);
    patches.push(patch);
  }
  connection.close();
  return patches[0] ?? "";
}

function isRight(patch: string, names: readonly string[] | undefined): boolean {
  if (names === undefined) return patch !== "";
  const operations: { path: string; value: unknown }[] = JSON.parse(Buffer.from(patch, "base64").toString("utf8"));
  const aliases = operations.filter(({ path }) => path.startsWith("/spec/hostAliases")).flatMap(({ value }) => value);
  const ours = (aliases as { ip: string; hostnames: string[] }[]).filter(({ ip }) => ip === IP);
  return ours.flatMap(({ hostnames }) => hostnames).join() === names.join();
}

async function warmUp({ ready, shots }: Side): Promise<void> {
  const connections = await Connection.openAll(ready, CONNECTIONS);
  for (let done = 0; done < WARM_ADMISSIONS; ) done += (await closedLoop(connections, shots, ROUND_MS)).answered;
  for (const connection of connections) connection.close();
}

async function measureRound(side: Side): Promise<void> {
  const connections = await Connection.openAll(side.ready, CONNECTIONS);
  const before = cpuOf(side.pid);
  const { perSecond, answered } = await closedLoop(connections, side.shots, ROUND_MS);
  side.perSecond.push(perSecond);
  side.cpu.push(((cpuOf(side.pid) - before) * 1_000) / answered);
  for (const connection of connections) connection.close();
}
