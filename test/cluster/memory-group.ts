import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const V1 = "/sys/fs/cgroup/memory";
const V2 = "/sys/fs/cgroup";
const V1_PEAK = "memory.max_usage_in_bytes";
/** Exists since Linux 5.19. */
const V2_PEAK = "memory.peak";
const PREFIX = "switchback-test-";

/**
 * A cgroup with a memory limit, like the one that the kubelet creates for a container. Only root can create it.
 * Without it, tests only read a component's peak.
 */
export interface MemoryGroup {
  /** Runs a program in the cgroup: put this before the program and its arguments. */
  readonly command: readonly string[];
  /** Removes the cgroup after its processes have ended. */
  remove(): void;
}

export function memoryGroup(name: string, limitBytes: number): MemoryGroup | undefined {
  const isV2 = existsSync(join(V2, "cgroup.controllers"));
  const folder = join(isV2 ? V2 : V1, `${PREFIX}${process.pid}-${name}`);
  try {
    mkdirSync(folder);
    writeFileSync(join(folder, isV2 ? "memory.max" : "memory.limit_in_bytes"), String(limitBytes));
  } catch {
    return undefined;
  }
  return {
    command: ["/bin/sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', folder],
    remove() {
      try {
        rmdirSync(folder);
      } catch {
        // One of its processes is still ending. The empty cgroup costs nothing and disappears with the machine.
      }
    },
  };
}

/**
 * Peak memory of a process, in bytes. With a MemoryGroup, it is the memory that was charged to the group, which is
 * what the limit counts. Without one, it is the resident memory (proc(5), VmHWM), including the pages of the
 * program's file.
 */
export function peakMemory(pid: number): number {
  const [, group] = new RegExp(`^\\d+:(?:memory)?:/(${PREFIX}.*)$`, "m").exec(read(`/proc/${pid}/cgroup`)) ?? [];
  const charged = group === undefined ? 0 : Number(read(join(V1, group, V1_PEAK)) || read(join(V2, group, V2_PEAK)));
  if (charged > 0) return charged;
  const [, kib = "0"] = /^VmHWM:\s+(\d+) kB$/m.exec(read(`/proc/${pid}/status`)) ?? [];
  return Number(kib) * 1024;
}

/** A file's text; empty if the file is missing. */
function read(path: string): string {
  return existsSync(path) ? readFileSync(path, "utf8") : "";
}
