import { setTimeout as delay } from "node:timers/promises";
import type { Change, Ingresses } from "./controller-ingresses.ts";
import type { MapFollower, SeenPublication } from "./controller-map.ts";
import { cpuOf } from "./process.ts";

/** What every phase works with. All times are milliseconds. */
export interface Bench {
  /** Address and port of a DNS server that answers for every name. */
  readonly dns: string;
  readonly ingresses: Ingresses;
  /** Changes of every kind that was seeded, by turns. */
  readonly nextChange: () => Change;
  readonly map: MapFollower;
}

const LONGEST_WAIT_MS = 120_000;
const CHANGE_EVERY_MS = 1_000;

interface ChangeTimes {
  /** From the start of the write to the index that carries it: the API server's own work is in it. */
  readonly fromWrite: readonly number[];
  /** The same from the API server's answer to the write; may be below 0, as the watch is sometimes faster than the answer. */
  readonly fromAnswer: readonly number[];
  /** CPU of the process a change, what it spends idle taken off. */
  readonly cpu: number;
}

/** CPU that the process spends a millisecond when nothing changes: the Lease, timers. */
export async function idleCpu(pid: number, durationMs: number): Promise<number> {
  const [cpu, at] = [cpuOf(pid), performance.now()];
  await delay(durationMs);
  return (cpuOf(pid) - cpu) / (performance.now() - at);
}

/** One change a second. One that takes longer lets seconds pass: two changes at once are not what is measured. */
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
  /** From the start of each write to the index that carries it. */
  readonly lags: readonly number[];
  /** CPU of the process, as a share of one core. */
  readonly cpu: number;
}

/** So many changes a second for some seconds, whether or not the map keeps up; then waits until all of them are in it. */
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
 * A publication is paid for by the time that follows it, so the last one, whose time is not over, does not count.
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

/** Waits for `promise`, but not for ever, and not when the map can no longer be seen. */
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
