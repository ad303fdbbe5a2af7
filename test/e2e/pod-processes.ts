import { readdirSync, readFileSync } from "node:fs";
import { run } from "../cluster/node/run.ts";

// Faults that no API can cause, in the processes of a pod and in the packets that reach a pod. Only for this machine's
// own node.

/** A file of a process; empty if the process has ended. */
function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

/**
 * The processes of a pod whose command line contains `command`. The environment of every container has the name of
 * its pod.
 */
export function processesOf(pod: string, command: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => read(`/proc/${pid}/cmdline`).includes(command))
    .filter((pid) => read(`/proc/${pid}/environ`).split("\0").includes(`HOSTNAME=${pod}`))
    .map(Number);
}

/**
 * Drops packets to a port of the pod that has this process. The kubelet's probes use other ports, so they notice
 * nothing. Returns a function that ends the fault.
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
