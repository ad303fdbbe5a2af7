import { existsSync, readdirSync } from "node:fs";
import { mkdir, readdir, readFile, rmdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { CGROUP } from "./layout.ts";

const TOP = "/sys/fs/cgroup";
/** Where containerd puts the kubelet's containers if the kubelet names no parent. */
const CONTAINERS = "k8s.io";
const ENDED_DEADLINE_MS = 10_000;

/**
 * The cgroup in which every program of the cluster starts. Its children stay in it. So the kernel keeps the list of
 * our processes. A process id that another program has taken cannot be mistaken for one of ours.
 */
export function daemonGroup(): string {
  return join(hierarchies().find((path) => path.endsWith("/pids")) ?? TOP, CGROUP);
}

/** One folder for each hierarchy of cgroup v1; only the top folder for v2. */
function hierarchies(): string[] {
  if (existsSync(join(TOP, "cgroup.controllers"))) return [TOP];
  return readdirSync(TOP).map((name) => join(TOP, name));
}

export async function createDaemonGroup(): Promise<void> {
  await mkdir(daemonGroup(), { recursive: true });
}

/** Processes of the daemons and their shims, and of the containers with these ids. */
async function members(containers: string[]): Promise<number[]> {
  const groups = [daemonGroup(), ...containerGroups(containers)];
  const lists = await Promise.all(groups.map((group) => readFile(join(group, "cgroup.procs"), "utf8").catch(() => "")));
  return [...new Set(lists.flatMap((list) => list.split("\n").filter(Boolean).map(Number)))];
}

function containerGroups(containers: string[]): string[] {
  const parents = hierarchies().map((path) => join(path, CONTAINERS));
  return parents.flatMap((parent) => containers.map((id) => join(parent, id))).filter((path) => existsSync(path));
}

/** Ends every process of the cluster, and removes its cgroups. @throws if some processes do not end. */
export async function endAll(containers: string[]): Promise<void> {
  const deadline = Date.now() + ENDED_DEADLINE_MS;
  for (;;) {
    const pids = await members(containers);
    if (pids.length === 0) break;
    if (Date.now() > deadline) throw new Error(`processes of the cluster do not end: ${pids.join(" ")}`);
    for (const pid of pids) kill(pid);
    await delay(100);
  }
  for (const group of [...containerGroups(containers), ...hierarchies().map((path) => join(path, CGROUP))]) {
    await removeTree(group);
  }
  for (const path of hierarchies()) await rmdir(join(path, CONTAINERS)).catch(() => {});
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // The process has ended meanwhile.
  }
}

async function removeTree(group: string): Promise<void> {
  if (!existsSync(group)) return;
  for (const entry of await readdir(group, { withFileTypes: true })) {
    if (entry.isDirectory()) await removeTree(join(group, entry.name));
  }
  // The kernel releases a cgroup only a moment after its last process has ended.
  for (let tries = 0; ; tries++) {
    try {
      return await rmdir(group);
    } catch (error) {
      if (tries === 20) throw error;
      await delay(100);
    }
  }
}
