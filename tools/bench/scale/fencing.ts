import { setTimeout as delay } from "node:timers/promises";
import { TOUCH_MANAGER } from "#lib/kube/fence.ts";
import type { Bed } from "../controller/bed.ts";
import type { ServedProcess } from "../controller/process.ts";
import { NAMESPACE } from "../controller/process.ts";
import { progress, type Reporter } from "../report.ts";
import { startController, untilQuiet } from "./controller-behind-front.ts";
import { isLeaders } from "./counts.ts";
import { type Front, startFront } from "./processes.ts";

/** Short times, so that many tries take only minutes. Their order is the same as in the defaults. */
const LEASE = [
  "controller.leaseSeconds=3",
  "controller.renewDeadlineSeconds=2",
  "controller.retrySeconds=0.5",
  // Lets publications follow each other closely.
  "map.bytesPerSecond=10000000",
];
/** The process stops at the first, second or third write. A publication has at least two: a shard and the index. */
const MOST_WRITES = 3;
const LATEST_STOP_MS = 15;
const CHANGE_EVERY_MS = 250;
const TAKEOVER_MS = 60_000;
/** Time in which a resumed leader finishes what it had begun. */
const RESUMED_MS = 1_000;

interface Replica {
  readonly name: string;
  readonly process: ServedProcess;
}

/**
 * Stops the leader (SIGSTOP) in the middle of a publication until the other replica has taken over and published.
 * Then counts the writes of the resumed leader that the API server accepts. The cluster has no pods; everything else
 * is real.
 */
export async function fencing(bed: Bed, tries: number, report: Reporter): Promise<void> {
  const empty = { pods: 0, nodes: 0, namespaces: 0, optedIn: 0, onChange: "restart" } as const;
  const front = await startFront(bed.cluster, empty, 0);
  const replicas: Replica[] = [];
  const churn = new AbortController();
  try {
    for (const name of ["controller-a", "controller-b"]) {
      const process = await startController(bed, front, LEASE, { token: name });
      replicas.push({ name, process });
      await process.ready();
      await untilQuiet(process, front);
    }
    const changing = change(bed, churn.signal);
    let [done, taken, harmless, refused] = [0, 0, 0, 0];
    for (let number = 0; done < tries; number += 1) {
      const stale = await one(bed, front, replicas, number);
      if (stale === undefined) continue;
      done += 1;
      taken += stale.taken;
      harmless += stale.harmless;
      refused += stale.refused;
      if (done % 10 === 0)
        progress(`${done} of ${tries} tries: ${taken} taken, ${harmless} harmless, ${refused} refused`);
    }
    churn.abort();
    await changing;
    report.figure({ name: "tries", value: tries, unit: "" });
    report.figure({ name: "stale-writes-taken", value: taken, unit: "", goal: 0 });
    report.figure({ name: "stale-touches-and-shards-that-nobody-reads", value: harmless, unit: "" });
    report.figure({ name: "stale-writes-refused", value: refused, unit: "" });
  } finally {
    churn.abort();
    for (const { process } of replicas) {
      // A process that SIGSTOP has stopped would not end.
      signal(process.pid, "SIGCONT");
      await process.stop();
    }
    await front.stop();
  }
}

/** Creates names all the time, so that the leader always has something to publish. */
async function change(bed: Bed, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await bed.nextChange().write();
    await delay(CHANGE_EVERY_MS);
  }
}

/** Runs one try; undefined if the leader lost its Lease before it was stopped. */
async function one(bed: Bed, front: Front, replicas: readonly Replica[], number: number) {
  const leader = await untilLed(bed, (name) => replicas.some((replica) => replica.name === name));
  const stopped = replicas.find(({ name }) => name === leader);
  if (stopped === undefined) throw new Error(`${leader} is no replica of ours`);
  const { name, process } = stopped;
  // Every other try stops the process at once, so that the response is there when it resumes. The other tries stop it
  // somewhere in the publication.
  const afterMs = number % 2 === 1 ? 0 : Math.random() * LATEST_STOP_MS;
  const stopping = front.stopAtWrite({
    component: name,
    pid: process.pid,
    writes: 1 + (number % MOST_WRITES),
    afterMs,
  });
  const other = untilLed(bed, (holder) => holder !== name && holder !== "").then(() => front.doNotStop());
  const isStopped = await stopping;
  await other;
  if (!isStopped) return undefined;
  const before = bed.map.publications.length;
  const deadline = performance.now() + TAKEOVER_MS;
  while (bed.map.publications.length === before) {
    if (performance.now() > deadline) throw new Error("the other replica does not publish");
    await delay(50);
  }
  await front.counts();
  signal(process.pid, "SIGCONT");
  await delay(RESUMED_MS);
  const { counts } = await front.counts();
  const stale = counts.filter((count) => count.component === name && isLeaders(count));
  const written = stale.flatMap((count) => count.written);
  const taken = written.filter(({ url, isRead }) => isRead && !isTouch(url));
  if (taken.length > 0) progress(`try ${number}: ${taken.map(({ url }) => url).join(", ")}`);
  return {
    refused: stale.reduce((sum, count) => sum + count.refused, 0),
    taken: taken.length,
    harmless: written.length - taken.length,
  };
}

/**
 * Whether it is a write that changes no content: with it, a term outdates the versions that earlier terms know
 * (lib/kube/fence.ts).
 */
function isTouch(url: string): boolean {
  return new URL(url, "https://front").searchParams.get("fieldManager") === TOUCH_MANAGER;
}

/** Waits until the Lease's holder is as wanted. Returns the pod's name. */
async function untilLed({ cluster }: Bed, wanted: (holder: string) => boolean): Promise<string> {
  const path = `/apis/coordination.k8s.io/v1/namespaces/${NAMESPACE}/leases/switchback-controller`;
  const deadline = performance.now() + TAKEOVER_MS;
  for (;;) {
    const { body } = await cluster.call({ path });
    const { holderIdentity = "" } = (body as { spec?: { holderIdentity?: string } }).spec ?? {};
    const name = /^controller-[ab]/.exec(holderIdentity)?.[0] ?? "";
    if (wanted(name)) return name;
    if (performance.now() > deadline) throw new Error(`the Lease is held by ${JSON.stringify(holderIdentity)}`);
    await delay(50);
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // The process has ended.
  }
}
