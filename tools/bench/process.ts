import { readdirSync, readFileSync } from "node:fs";

/** Memory of a process in MB: resident, its maximum so far, and the part that belongs to no file. */
export interface Memory {
  readonly rss: number;
  readonly peak: number;
  readonly anonymous: number;
}

/**
 * Reads /proc (Linux only). The kernel walks all pages for `smaps_rollup`, so call this when nothing else is measured.
 */
export function memoryOf(pid: number): Memory {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const field = (text: string, name: string): number =>
    (Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(text)?.[1]) * 1_024) / 1e6;
  return { rss: field(rollup, "Rss"), peak: field(status, "VmHWM"), anonymous: field(rollup, "Anonymous") };
}

/**
 * CPU time of processes so far, in milliseconds: user and system, all threads. The scheduler counts nanoseconds
 * (schedstat). The ticks of /proc/PID/stat are 10 ms, too coarse for a change that costs a few milliseconds.
 */
export function cpuOf(...pids: readonly number[]): number {
  const tasks = pids.flatMap((pid) => readdirSync(`/proc/${pid}/task`).map((task) => `/proc/${pid}/task/${task}`));
  const spent = tasks.map((task) => Number(readFileSync(`${task}/schedstat`, "utf8").split(" ")[0]));
  return spent.reduce((sum, each) => sum + each, 0) / 1e6;
}

/** The children of a process. nginx does its work in one. */
export function childrenOf(pid: number): number[] {
  return readdirSync(`/proc/${pid}/task`).flatMap((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, "utf8").trim().split(" ").filter(Boolean).map(Number),
  );
}
