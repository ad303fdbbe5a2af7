import { readdirSync, readFileSync } from "node:fs";
import { run } from "../cluster/node/run.ts";

// Faults that no API has: what happens to a process of a pod, and to the packets that reach a pod. For this
// machine's own node.

/** Of the files of a pod's process: gone when the process has ended meanwhile. */
function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

/**
 * The processes of a pod whose command line contains `command`. Every container has the name of its pod in its
 * environment.
 */
export function processesOf(pod: string, command: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => read(`/proc/${pid}/cmdline`).includes(command))
    .filter((pid) => read(`/proc/${pid}/environ`).split("\0").includes(`HOSTNAME=${pod}`))
    .map(Number);
}

/**
 * Drops what reaches a port of the pod of this process; the kubelet's probes, at other ports, notice nothing.
 * Returns what ends it.
 */
export async function dropPackets(pid: number, port: number): Promise<() => Promise<void>> {
  const nft = (...rule: string[]) => run("nsenter", `--target=${pid}`, "--net", "nft", ...rule);
  await nft("add", "table", "inet", "lost");
  await nft("add", "chain", "inet", "lost", "in", "{ type filter hook input priority 0 ; }");
  for (const protocol of ["udp", "tcp"])
    await nft("add", "rule", "inet", "lost", "in", protocol, "dport", `${port}`, "drop");
  return async () => {
    await nft("delete", "table", "inet", "lost");
  };
}
