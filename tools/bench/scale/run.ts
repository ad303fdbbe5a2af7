import { setTimeout as delay } from "node:timers/promises";
import type { Bed } from "../controller/bed.ts";
import { within } from "../controller/phases.ts";
import { NAMESPACE, type ServedProcess } from "../controller/process.ts";
import { cpuOf, memoryOf } from "../process.ts";
import { percentile, progress, type Reporter } from "../report.ts";
import { FOLLOWS_AGENTS, setAgents, startController, untilQuiet } from "./controller-behind-front.ts";
import { type Count, sumOf } from "./counts.ts";
import { isOptedIn, namespaceName, type Population } from "./population.ts";
import { type Front, HealthPoll, startAgents, startFront, timeOf, type WorstHealth } from "./processes.ts";

/** One state of the cluster in which the controller is measured. */
export interface Run {
  readonly name: string;
  readonly what: string;
  readonly population: Population;
  /** Number of opted-in namespaces in which workloads may be restarted. */
  readonly restart?: number;
  /** Number of real agents. */
  readonly agents?: number;
  /** Number of new Ingresses in each of three rounds. */
  readonly changes: number;
  /** Node flags of the controller, in addition to the chart's. */
  readonly nodeFlags: readonly string[];
}

/** Results with which another run is compared. */
export interface Seen {
  readonly cpu: number;
  readonly rss: number;
  /** CPU time per millisecond when nothing changes, in milliseconds. */
  readonly idle: number;
}

/** Maximum figures of a run. */
const GOALS: Readonly<Record<string, { readonly cpu?: number; readonly rss?: number }>> = {
  some: { cpu: 10, rss: 180 },
  all: { cpu: 15, rss: 256 },
};
const HEALTH_GOAL_MS = 100;
const ROUNDS = 3;
/** As long as the controller's resync interval, so that work which it does once per interval counts as idle work. */
const IDLE_MS = 15_000;
/** Time for the work that follows a change: agents write their Leases, and the controller evaluates workloads. */
const CHANGE_EVERY_MS = 2_500;
const TOUCHED = 500;
const TOUCH_MS = 3_000;
/** V8's heap if the chart's is too small, so that there is a result. */
const LARGE_HEAP = ["--max-old-space-size=2048"];

/** Measures one run with the chart's Node flags. If the controller dies, measures it once more with a large heap. */
export async function measureRun(bed: Bed, run: Run, report: Reporter, none?: Seen): Promise<Seen | undefined> {
  const front = await startFront(bed.cluster, run.population, run.agents ?? 0);
  try {
    return await measureWith(bed, run, front, { report, none, nodeFlags: run.nodeFlags }).catch(
      async (error: unknown) => {
        if (!String(error).includes("controller ended")) throw error;
        progress(String(error).slice(-1_000));
        report.figure({ name: "dies-with-the-chart's-flags", value: 1, unit: "" });
        await front.counts();
        return await measureWith(bed, run, front, { report, none, nodeFlags: LARGE_HEAP });
      },
    );
  } finally {
    await front.stop();
  }
}

interface How {
  readonly report: Reporter;
  readonly none: Seen | undefined;
  readonly nodeFlags: readonly string[];
}

async function measureWith(bed: Bed, run: Run, front: Front, { report, none, nodeFlags }: How): Promise<Seen> {
  const first = await startController(bed, front, settingsOf(run), { nodeFlags });
  const starting = new HealthPoll(first);
  const stops: Array<() => Promise<void>> = [() => starting.stop(), () => first.stop()];
  const ms = (name: string, value: number, goal?: number) => report.figure({ name, value, unit: "ms", goal });
  try {
    await first.ready();
    await untilQuiet(first, front);
    ms("start-cpu", cpuOf(first.pid));
    healthFigures("start", starting.take(), report);
    // Stops the health poll: its requests would use most of the CPU of an idle process.
    await starting.stop();
    requestFigures("start", await front.counts(), report);
    if (run.agents !== undefined) {
      progress(`${run.agents} agents`);
      await setAgents(bed, run.population.nodes, 0);
      const agents = await startAgents(bed, front, run.population, run.agents);
      stops.unshift(() => agents.stop());
      await untilQuiet(first, front);
      await front.counts();
    }
    const seen = await changesOf(bed, first, run, front, report);
    const health = new HealthPoll(first);
    stops.unshift(() => health.stop());
    await changes(bed, first, run.changes);
    healthFigures("change", health.take(), report);
    await pages(bed, first, report);
    await touch(first, front, { ...run, idle: seen.idle }, report);
    healthFigures("touched", health.take(), report);
    const { peak, anonymous } = memoryOf(first.pid);
    report.figure({ name: "pods-shed", value: await podsShed(first), unit: "" });
    report.figure({ name: "rss", value: seen.rss, unit: "MiB", goal: GOALS[run.name]?.rss });
    report.figure({ name: "rss-anonymous", value: anonymous, unit: "MiB" });
    report.figure({ name: "rss-peak", value: peak, unit: "MiB" });
    if (none !== undefined) {
      report.figure({ name: "change-cpu-to-no-pods", value: seen.cpu / none.cpu, unit: "x" });
      report.figure({ name: "rss-to-no-pods", value: seen.rss / none.rss, unit: "x" });
    }
    return seen;
  } finally {
    for (const stop of stops) await stop();
  }
}

function settingsOf({ population, restart = 0, agents }: Run): string[] {
  const namespaces: string[] = [];
  for (let index = 0; index < population.namespaces && namespaces.length < restart; index += 1) {
    if (isOptedIn(population, index)) namespaces.push(namespaceName(index));
  }
  return [`restart.namespaces=${JSON.stringify(namespaces)}`, ...(agents === undefined ? [] : FOLLOWS_AGENTS)];
}

/** CPU time of new Ingresses in three rounds, without the CPU time that the process uses when nothing changes. */
async function changesOf(bed: Bed, process: ServedProcess, run: Run, front: Front, report: Reporter): Promise<Seen> {
  await front.counts();
  const [cpuBefore, at] = [cpuOf(process.pid), performance.now()];
  await delay(IDLE_MS);
  const idle = (cpuOf(process.pid) - cpuBefore) / (performance.now() - at);
  report.figure({ name: "idle-cpu", value: idle * 1_000, unit: "ms/s" });
  const idleSeconds = (performance.now() - at) / 1_000;
  const idleCounts = (await front.counts()).counts;
  report.figure({ name: "idle-requests", value: sumOf(idleCounts, "requests") / idleSeconds, unit: "/s" });
  report.figure({ name: "idle-bytes", value: sumOf(idleCounts, "bytes") / idleSeconds / 1_000, unit: "kB/s" });
  const rounds: number[] = [];
  const published: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    progress(`round ${round + 1} of ${ROUNDS}`);
    const [cpu, start] = [cpuOf(process.pid), performance.now()];
    published.push(...(await changes(bed, process, run.changes)));
    rounds.push((cpuOf(process.pid) - cpu - idle * (performance.now() - start)) / run.changes);
  }
  const cpu = percentile(rounds, 0.5);
  report.figure({ name: "change-cpu", value: cpu, unit: "ms", goal: GOALS[run.name]?.cpu });
  report.figure({ name: "change-cpu-least", value: Math.min(...rounds), unit: "ms" });
  report.figure({ name: "change-cpu-most", value: Math.max(...rounds), unit: "ms" });
  report.figure({ name: "change-to-index-p50", value: percentile(published, 0.5), unit: "ms" });
  report.figure({ name: "change-to-index-max", value: Math.max(...published), unit: "ms" });
  const made = await front.counts();
  leaseFigures(made, run, ROUNDS * run.changes, report);
  requestFigures("changes", made, report);
  return { cpu, rss: memoryOf(process.pid).rss, idle };
}

/** Makes changes one after the other. Returns the time from each write to the index that has it, in milliseconds. */
async function changes(bed: Bed, process: ServedProcess, count: number): Promise<number[]> {
  const published: number[] = [];
  for (let number = 0; number < count; number += 1) {
    const change = bed.nextChange();
    const shown = bed.map.published(change.host);
    const writtenAt = performance.now();
    await change.write();
    published.push((await within(bed, Promise.race([shown, process.ended]), change.host)) - writtenAt);
    await delay(Math.max(0, writtenAt + CHANGE_EVERY_MS - performance.now()));
  }
  return published;
}

/** Number of Lease writes per change: of the real agents, and of all nodes if they behave like these. */
function leaseFigures(
  { counts, copied }: { readonly counts: Count[]; readonly copied: number },
  { agents, population }: Run,
  changes: number,
  report: Reporter,
): void {
  if (agents === undefined) return;
  const written = sumOf(counts, "requests", { component: "agent", verb: "patch", resource: "leases" });
  report.figure({ name: "leases-by-real-agents", value: written / changes, unit: "/change" });
  report.figure({ name: "leases-by-copying", value: copied / changes, unit: "/change" });
  report.figure({ name: "leases-of-all", value: (written / changes / agents) * population.nodes, unit: "/change" });
}

function healthFigures(phase: string, { answer, computing }: WorstHealth, report: Reporter): void {
  report.figure({ name: `${phase}-worst-healthz`, value: answer, unit: "ms" });
  report.figure({ name: `${phase}-worst-healthz-computing`, value: computing, unit: "ms", goal: HEALTH_GOAL_MS });
}

/** Reports the requests that cause the most work for the API server. */
function requestFigures(phase: string, { counts }: { readonly counts: readonly Count[] }, report: Reporter): void {
  const most = [...counts].sort((a, b) => b.bytes + b.requests * 1_000 - (a.bytes + a.requests * 1_000)).slice(0, 8);
  for (const { component, verb, resource, requests, bytes, events } of most) {
    const name = `${phase}: ${component} ${verb} ${resource}`;
    report.figure({ name: `${name}, requests`, value: requests, unit: "" });
    report.figure({ name: `${name}, bytes`, value: bytes / 1_000, unit: "kB" });
    if (verb === "watch") report.figure({ name: `${name}, events`, value: events, unit: "" });
  }
}

/** Measures the cost of `status` and of a scrape. */
async function pages({ cluster }: Bed, { healthPort }: ServedProcess, report: Reporter): Promise<void> {
  const { body } = await cluster.call({ path: `/api/v1/namespaces/${NAMESPACE}/secrets/switchback-status` });
  const key = (body as { data?: { key?: string } }).data?.key ?? "";
  const headers = { "switchback-status-key": Buffer.from(key, "base64").toString("latin1") };
  for (const [name, path, sent] of [
    ["status", "/status", headers],
    ["scrape", "/metrics", {}],
  ] as const) {
    const times: number[] = [];
    let bytes = 0;
    for (let round = 0; round < ROUNDS; round += 1) {
      const answer = await timeOf(healthPort, path, sent);
      if (answer.status !== 200) throw new Error(`${path} answered ${answer.status}`);
      bytes = answer.bytes;
      times.push(answer.ms);
      // Waits, because the process serves a page from memory for a short time.
      await delay(2_500);
    }
    report.figure({ name: `${name}-bytes`, value: bytes / 1_000, unit: "kB" });
    report.figure({ name: `${name}-time`, value: percentile(times, 0.5), unit: "ms" });
  }
}

/** Number of pods that the controller leaves out for lack of memory. It counts up to 10,000. */
async function podsShed({ healthPort }: ServedProcess): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${healthPort}/metrics`)).text();
  return Number(/^switchback_controller_pods_shed (\d+)$/m.exec(text)?.[1] ?? 0);
}

/** Measures the CPU time of a pod status change on which no decision depends. */
async function touch(
  { pid }: ServedProcess,
  front: Front,
  { population, idle }: Run & Pick<Seen, "idle">,
  report: Reporter,
): Promise<void> {
  const pods = Math.min(TOUCHED, population.pods);
  if (pods === 0) return;
  const [cpu, at] = [cpuOf(pid), performance.now()];
  await front.touch(pods);
  await delay(TOUCH_MS);
  const spent = cpuOf(pid) - cpu - idle * (performance.now() - at);
  report.figure({ name: "pod-status-cpu", value: (spent / pods) * 1_000, unit: "us" });
}
