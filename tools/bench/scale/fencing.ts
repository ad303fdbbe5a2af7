import { setTimeout as delay } from "node:timers/promises";
import { TOUCH_MANAGER } from "#lib/kube/fence.ts";
import type { Bed } from "../controller/bed.ts";
import type { ServedProcess } from "../controller/process.ts";
import { NAMESPACE } from "../controller/process.ts";
import { progress, type Reporter } from "../report.ts";
import { startController, untilQuiet } from "./controller-behind-front.ts";
import { isLeaders } from "./counts.ts";
import { type Front, startFront } from "./processes.ts";

/** Short, so that many tries take minutes; the order of times is the default's. */
const LEASE = [
  "controller.leaseSeconds=3",
  "controller.renewDeadlineSeconds=2",
  "controller.retrySeconds=0.5",
  // Publications follow each other closely.
  "map.bytesPerSecond=10000000",
];
/** A publication has at least two writes, a shard and the index. */
const MOST_WRITES = 3;
const LATEST_STOP_MS = 15;
const CHANGE_EVERY_MS = 250;
const TAKEOVER_MS = 60_000;
/** What a resumed leader had begun is over after this. */
const RESUMED_MS = 1_000;

interface Replica {
  readonly name: string;
  readonly process: ServedProcess;
}

/**
 * Stops the leader (SIGSTOP) in the middle of a publication until the other replica has taken over and published,
 * and counts the writes of the resumed one that the API server takes. Nothing is made up here but that there are no
 * pods.
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
      // A stopped process would not end.
      signal(process.pid, "SIGCONT");
      await process.stop();
    }
    await front.stop();
  }
}

/** New names all the time, so that the leader always has something to publish. */
async function change(bed: Bed, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await bed.nextChange().write();
    await delay(CHANGE_EVERY_MS);
  }
}

/** One try; undefined if the leader lost its Lease before it was stopped. */
async function one(bed: Bed, front: Front, replicas: readonly Replica[], number: number) {
  const leader = await untilLed(bed, (name) => replicas.some((replica) => replica.name === name));
  const stopped = replicas.find(({ name }) => name === leader);
  if (stopped === undefined) throw new Error(`${leader} is no replica of ours`);
  const { name, process } = stopped;
  // At once in every other try, so that its answer has come when the process goes on; else somewhere in the
  // publication.
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
 * A write that changes no content, with which a term outdates the versions that earlier ones know (lib/kube/fence.ts).
 */
function isTouch(url: string): boolean {
  return new URL(url, "https://front").searchParams.get("fieldManager") === TOUCH_MANAGER;
}

/** The pod's name in the Lease, once it is as wanted. */
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
    // It has ended.
  }
}
