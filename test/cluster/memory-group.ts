import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const V1 = "/sys/fs/cgroup/memory";
const V2 = "/sys/fs/cgroup";
const V1_PEAK = "memory.max_usage_in_bytes";
/** Since Linux 5.19. */
const V2_PEAK = "memory.peak";
const PREFIX = "switchback-test-";

/**
 * A cgroup with a memory limit, as the kubelet makes one for a container. Only root may; elsewhere a component's
 * peak is read alone.
 */
export interface MemoryGroup {
  /** Starts a program in it: put before the program and its arguments. */
  readonly command: readonly string[];
  /** Removes it once its processes have ended. */
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
        // A process of it is ending still: the empty group costs nothing and goes with the machine.
      }
    },
  };
}

/**
 * The most memory that a process has had, in bytes: what its MemoryGroup was charged, which is what its limit
 * counts, or, without a group, what was resident (proc(5), VmHWM), the pages of the program's file too.
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
