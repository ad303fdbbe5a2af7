import { setTimeout as delay } from "node:timers/promises";
import { cpuOf } from "../process.ts";
import type { Change, Ingresses } from "./ingresses.ts";
import type { MapFollower, SeenPublication } from "./map.ts";

/** The context of every phase. All times are milliseconds. */
export interface Bench {
  /** Address and port of a DNS server that responds for every name. */
  readonly dns: string;
  readonly ingresses: Ingresses;
  /** Returns changes of every seeded kind, in turn. */
  readonly nextChange: () => Change;
  readonly map: MapFollower;
}

const LONGEST_WAIT_MS = 120_000;
const CHANGE_EVERY_MS = 1_000;

interface ChangeTimes {
  /** Times from the start of the write to the index with the change; they include the API server's work. */
  readonly fromWrite: readonly number[];
  /**
   * Times from the API server's response to the write. May be below 0, because the watch is sometimes faster than the
   * response.
   */
  readonly fromAnswer: readonly number[];
  /** CPU time of the process per change, without its idle CPU time. */
  readonly cpu: number;
}

/**
 * Settings of the controller. It verifies names against a DNS server of this machine, so that no other server gets
 * queries for the benchmark's names. The Ingresses' target has their class: it is not the only target if Gateways
 * have others.
 */
export function settingsOf({ dns }: Pick<Bench, "dns">): string[] {
  const service = { namespace: "ingress-nginx", name: "ingress-nginx-controller" };
  // No proxy runs that could detect the protocol.
  const ports = [80, 443].map((port) => ({ port, protocol: "v1" }));
  const targets = [{ name: "ingress-nginx", upstream: { service }, classes: ["nginx"], ports }];
  return [`policy.dnsServers=["${dns}"]`, `targets=${JSON.stringify(targets)}`];
}

/** CPU time of the process per millisecond when nothing changes, such as for the Lease and timers. */
export async function idleCpu(pid: number, durationMs: number): Promise<number> {
  const [cpu, at] = [cpuOf(pid), performance.now()];
  await delay(durationMs);
  return (cpuOf(pid) - cpu) / (performance.now() - at);
}

/** One change per second. A slower change skips seconds, because concurrent changes are not measured here. */
export async function singleChanges(bench: Bench, pid: number, count: number, idle: number): Promise<ChangeTimes> {
  const fromWrite: number[] = [];
  const fromAnswer: number[] = [];
  const [cpu, start] = [cpuOf(pid), performance.now()];
  for (let number = 0; number < count; number++) {
    const change = bench.nextChange();
    const published = bench.map.published(change.host);
    const writtenAt = performance.now();
    await change.write();
    const answeredAt = performance.now();
    const at = await within(bench, published, `${change.host} in the map`);
    fromWrite.push(at - writtenAt);
    fromAnswer.push(at - answeredAt);
    await until(start + Math.ceil((performance.now() - start) / CHANGE_EVERY_MS) * CHANGE_EVERY_MS);
  }
  const spent = cpuOf(pid) - cpu - idle * (performance.now() - start);
  return { fromWrite, fromAnswer, cpu: spent / count };
}

interface Churn {
  readonly changesPerSecond: number;
  readonly publicationsPerSecond: number;
  readonly bytesPerSecond: number;
  /** Times from the start of each write to the index with the change. */
  readonly lags: readonly number[];
  /** CPU time of the process, as a share of one core. */
  readonly cpu: number;
}

/**
 * Makes a fixed number of changes per second, whether or not the map keeps up. Then waits until the map has all of
 * them.
 */
export async function churn(bench: Bench, pid: number, perSecond: number, seconds: number): Promise<Churn> {
  const before = bench.map.publications.length;
  const lags: Promise<number>[] = [];
  const writes: Promise<void>[] = [];
  const [cpu, start] = [cpuOf(pid), performance.now()];
  for (let number = 0; number < perSecond * seconds; number++) {
    await until(start + (number * 1_000) / perSecond);
    const change = bench.nextChange();
    const published = bench.map.published(change.host);
    const writtenAt = performance.now();
    writes.push(change.write());
    lags.push(published.then((at) => at - writtenAt));
  }
  await within(bench, Promise.all(writes), "the answers to all writes");
  const changesPerSecond = writes.length / ((performance.now() - start) / 1_000);
  const spent = (cpuOf(pid) - cpu) / (performance.now() - start);
  const all = await within(bench, Promise.all(lags), "all changes in the map");
  return { changesPerSecond, ...pace(bench.map.publications.slice(before)), lags: all, cpu: spent };
}

/**
 * Average rate of publications. The cost of a publication falls in the interval after it, so the last one, whose
 * interval is incomplete, does not count.
 */
function pace(publications: readonly SeenPublication[]): { publicationsPerSecond: number; bytesPerSecond: number } {
  const counted = publications.slice(0, -1);
  const seconds = ((publications.at(-1)?.at ?? 0) - (publications[0]?.at ?? 0)) / 1_000;
  const bytes = counted.reduce((sum, each) => sum + each.bytes, 0);
  return { publicationsPerSecond: counted.length / seconds, bytesPerSecond: bytes / seconds };
}

async function until(time: number): Promise<void> {
  await delay(Math.max(0, time - performance.now()));
}

/** Waits for `promise`, with a timeout. Fails if the watch of the map ends. */
export async function within<T>({ map }: Bench, promise: Promise<T>, what: string): Promise<T> {
  const stop = new AbortController();
  const late = delay(LONGEST_WAIT_MS, undefined, { signal: stop.signal }).then(() => {
    throw new Error(`${what}: not within ${LONGEST_WAIT_MS / 1_000} s; ${map.missing} names have not come`);
  });
  late.catch(() => {});
  try {
    return await Promise.race([promise, late, map.broken]);
  } finally {
    stop.abort();
  }
}
