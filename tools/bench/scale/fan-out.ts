import { setTimeout as delay } from "node:timers/promises";
import type { Bed } from "../controller/bed.ts";
import { within } from "../controller/phases.ts";
import { progress, type Reporter } from "../report.ts";
import { FOLLOWS_AGENTS, setAgents, startController, untilQuiet } from "./controller-behind-front.ts";
import { type Count, sumOf } from "./counts.ts";
import type { Population } from "./population.ts";
import { type Front, startAgents, startFront } from "./processes.ts";

interface FanOut {
  readonly population: Population;
  readonly agents: number;
  readonly names: number;
}

const CHANGES = 6;
const CHANGE_EVERY_MS = 5_000;
/** Number of changes of the DaemonSet's status. Its controller makes one for each agent that it replaces. */
const STATUS_CHANGES = 10;
/** Time between two of them. All of them take longer than the 100 s in which 5,000 agents read the status in turns. */
const STATUS_EVERY_MS = 12_000;
/** Assumed duration of a rollout, for the reads that repeat over time. */
const ROLLOUT_SECONDS = 3_600;
const MB = 1e6;

/**
 * Measures what the agents receive: when they start, for a change that touches none of their pods, and when the
 * status of their DaemonSet changes. Real agents are measured. The figures for all nodes are those of one agent times
 * the number of nodes.
 */
export async function fanOut(bed: Bed, { population, agents, names }: FanOut, report: Reporter): Promise<void> {
  progress(`${names} Ingresses`);
  await bed.ingresses.seed(names);
  const front = await startFront(bed.cluster, population, agents);
  const stops: Array<() => Promise<void>> = [() => front.stop()];
  const all = (name: string, ofReal: number, goal?: number) => {
    report.figure({ name: `${name}, ${agents} real agents`, value: ofReal / MB, unit: "MB" });
    const value = ((ofReal / agents) * population.nodes) / MB;
    report.figure({ name: `${name}, ${population.nodes} agents`, value, unit: "MB", goal });
  };
  try {
    // The figures are about the agents. So the controller must hold the names of the fan-out, whatever heap the chart
    // gives it.
    const controller = await startController(bed, front, FOLLOWS_AGENTS, {
      nodeFlags: ["--max-old-space-size=2048"],
    });
    stops.unshift(() => controller.stop());
    await setAgents(bed, population.nodes, 0);
    // `within` would not wait long enough for 50,000 names and a starting controller on two cores that the agents
    // share.
    await Promise.race([bed.map.size(names), controller.ended, bed.map.broken]);
    await untilQuiet(controller, front);
    await front.counts();
    const running = await startAgents(bed, front, population, agents);
    stops.unshift(() => running.stop());
    await untilQuiet(controller, front);
    const start = (await front.counts()).counts;
    for (const resource of ["namespaces", "daemonsets", "pods", "configmaps"]) {
      all(`start-${resource}`, sumOf(start, "bytes", { component: "agent", resource }));
    }
    progress(`${CHANGES} changes`);
    const began = performance.now();
    for (let number = 0; number < CHANGES; number += 1) {
      const change = bed.nextChange();
      const shown = bed.map.published(change.host);
      await change.write();
      await within(bed, Promise.race([shown, controller.ended]), change.host);
      await delay(CHANGE_EVERY_MS);
    }
    report.figure({ name: "agent-rss, of those with a process", value: Math.max(0, ...running.memory()), unit: "MiB" });
    const { counts } = await front.counts();
    const mapBytes = sumOf(counts, "bytes", { component: "agent", resource: "configmaps" }) / CHANGES;
    report.figure({ name: "change-map-bytes, one agent", value: mapBytes / agents / 1_000, unit: "kB" });
    all("change-map-bytes", mapBytes, 50);
    const afterChanges = leaseWrites(counts);
    await delay(performance.now() - began);
    const renewals = leaseWrites((await front.counts()).counts);
    report.figure({ name: "leases-with-changes, real agents", value: afterChanges, unit: "" });
    report.figure({ name: "leases-in-the-same-time-without", value: renewals, unit: "" });
    report.figure({ name: "untouched-leases", value: (afterChanges - renewals) / CHANGES / agents, unit: "/agent" });
    await rollout(bed, front, start, { population, agents }, report);
  } finally {
    for (const stop of stops) await stop();
  }
}

/** Lease writes of the real agents. */
function leaseWrites(counts: readonly Count[]): number {
  return sumOf(counts, "requests", { component: "agent", verb: "patch", resource: "leases" });
}

/**
 * Measures what all agents read of namespaces and of their DaemonSet while each agent is replaced: one change of its
 * status per agent, and an hour of repeated reads.
 */
async function rollout(
  bed: Bed,
  front: Front,
  start: readonly Count[],
  { population: { nodes }, agents }: Omit<FanOut, "names">,
  report: Reporter,
): Promise<void> {
  const at = performance.now();
  for (let change = 1; change <= STATUS_CHANGES; change += 1) {
    await setAgents(bed, nodes, change);
    await delay(STATUS_EVERY_MS);
  }
  const seconds = (performance.now() - at) / 1_000;
  const { counts } = await front.counts();
  const of = (verb: string) => sumOf(counts, "bytes", { component: "agent", resource: "daemonsets", verb });
  const eachChange = of("watch") / STATUS_CHANGES / agents;
  const eachSecond = (of("get") + of("list")) / seconds / agents;
  report.figure({ name: "daemonset-status-change, one agent", value: eachChange / 1_000, unit: "kB" });
  report.figure({ name: "daemonset-read, one agent", value: eachSecond, unit: "B/s" });
  const atStart = ["namespaces", "daemonsets"].map((resource) =>
    sumOf(start, "bytes", { component: "agent", resource }),
  );
  const oneAgent = atStart.reduce((sum, bytes) => sum + bytes, 0) / agents;
  const all = nodes * (oneAgent + eachChange * nodes + eachSecond * ROLLOUT_SECONDS);
  report.figure({ name: `rollout-namespaces-daemonset, ${nodes} agents`, value: all / 1e9, unit: "GB", goal: 1 });
}
