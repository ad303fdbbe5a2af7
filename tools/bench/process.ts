import { readdirSync, readFileSync } from "node:fs";

/** Memory of a process, MiB: resident, its maximum, and the part that belongs to no file. */
interface Memory {
  readonly rss: number;
  readonly peak: number;
  readonly anonymous: number;
}

/** One MiB, in MB. */
export const MB_PER_MIB = 1.048576;

/** From /proc (Linux only): VmRSS, VmHWM and RssAnon. */
export function memoryOf(pid: number): Memory {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const field = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(status)?.[1]) / 1024;
  return { rss: field("VmRSS"), peak: field("VmHWM"), anonymous: field("RssAnon") };
}

/**
 * Memory of a process, MB: resident, proportional (shared pages divided among the processes), and the part that
 * belongs to no file.
 */
export interface Footprint {
  readonly rss: number;
  readonly pss: number;
  readonly anonymous: number;
}

/**
 * Reads /proc/PID/smaps_rollup (Linux only). The kernel walks all pages for it, so call this when nothing else is
 * measured.
 */
export function footprintOf(pid: number): Footprint {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
  const field = (name: string): number =>
    (Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(rollup)?.[1]) * 1_024) / 1e6;
  return { rss: field("Rss"), pss: field("Pss"), anonymous: field("Anonymous") };
}

/**
 * CPU time of a process so far, in milliseconds: user and system, all threads. The scheduler's own count is in
 * nanoseconds. The ticks of /proc/PID/stat (10 ms) are too coarse for a change that costs a few milliseconds. They
 * are used only where the scheduler does not count.
 */
export function cpuOf(pid: number): number {
  const task = `/proc/${pid}/task`;
  const spent = readdirSync(task).map((thread) =>
    Number(readFileSync(`${task}/${thread}/schedstat`, "utf8").split(" ")[0]),
  );
  const total = spent.reduce((sum, each) => sum + each, 0) / 1e6;
  return total > 0 ? total : ticksOf(pid);
}

/** CPU time of the thread that runs a Node process's JavaScript, in milliseconds; 0 if it has ended. */
export function mainThreadCpuOf(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ")[0]) / 1e6;
  } catch {
    return 0;
  }
}

function ticksOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  // The name in brackets may contain spaces. After it, utime and stime are the 12th and 13th fields (proc(5)).
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10;
}
