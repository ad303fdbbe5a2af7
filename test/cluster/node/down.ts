import { existsSync } from "node:fs";
import { readdir, readFile, readlink, rm, rmdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { MTU_FILE, STATUS_FOLDER } from "./calico.ts";
import { endAll } from "./cgroup.ts";
import { DEVICE_PLUGINS, POD_LOGS, SECOND_NODE, STATE_FOLDER } from "./layout.ts";
import { deleteNetwork } from "./network.ts";
import { run } from "./run.ts";

/** Fixed paths that the kubelet, the CNI library and containerd's shims use. */
const CONTAINER_LINKS = "/var/log/containers";
const CNI_RESULTS = "/var/lib/cni/results";
const SHIM_SOCKETS = "/run/containerd/s";

/**
 * Ends a cluster, or what remains of one after a crash. Removes every trace: processes, cgroups, mounts, namespaces,
 * files.
 */
export async function down(): Promise<void> {
  const bundles = (await Promise.all([STATE_FOLDER, SECOND_NODE.folder].map(bundlesOf))).flat();
  const containers = bundles.map((bundle) => basename(bundle));
  const sockets = await Promise.all(bundles.map(shimSocket));
  await endAll(containers);
  await unmountAll();
  await deleteNetwork();
  for (const socket of sockets) if (socket !== undefined) await rm(socket, { force: true });
  await removeLinks();
  for (const name of await readdir(CNI_RESULTS).catch(() => [])) {
    if (containers.some((id) => name.includes(id))) await rm(join(CNI_RESULTS, name));
  }
  // If the machine had its own kubelet, it could not have had a cluster of ours. So this socket is ours.
  if (existsSync(STATE_FOLDER)) await rm(join(DEVICE_PLUGINS, "kubelet.sock"), { force: true });
  if (existsSync(STATUS_FOLDER)) await rm(MTU_FILE, { force: true });
  for (const folder of [CONTAINER_LINKS, CNI_RESULTS, SHIM_SOCKETS, DEVICE_PLUGINS, dirname(MTU_FILE)]) {
    await removeEmpty(folder);
  }
  await rm(STATE_FOLDER, { recursive: true, force: true });
}

/** The folders of a node's containers. Mounts of a second node disappear with its processes. */
async function bundlesOf(node: string): Promise<string[]> {
  const folder = join(node, "containerd", "state", "io.containerd.runtime.v2.task", "k8s.io");
  return (await readdir(folder).catch(() => [])).map((id) => join(folder, id));
}

/** The socket that the shim reported to containerd: `{"address":"unix:///run/containerd/s/...", ...}`. */
async function shimSocket(bundle: string): Promise<string | undefined> {
  const text = await readFile(join(bundle, "bootstrap.json"), "utf8").catch(() => "{}");
  const { address } = JSON.parse(text) as { address?: string };
  return address?.replace("unix://", "");
}

/** Removes the folder and its parent, if they are empty. */
async function removeEmpty(folder: string): Promise<void> {
  await rmdir(folder).then(
    () => rmdir(dirname(folder)).catch(() => {}),
    () => {},
  );
}

/**
 * Unmounts the deepest mounts first. @throws if a mount remains: deleting the folder would then delete the mounted
 * files.
 */
async function unmountAll(): Promise<void> {
  for (const path of (await mounts()).reverse()) await run("umount", path).catch(() => run("umount", "-l", path));
  const left = await mounts();
  if (left.length > 0) throw new Error(`still mounted: ${left.join(" ")}`);
}

/** Mount points in the state folder, in the order in which they were mounted. */
async function mounts(): Promise<string[]> {
  const lines = (await readFile("/proc/self/mountinfo", "utf8")).split("\n");
  // The file shows spaces and similar characters as octal escapes. Our paths have none.
  return lines.map((line) => line.split(" ")[4] ?? "").filter((path) => path.startsWith(`${STATE_FOLDER}/`));
}

async function removeLinks(): Promise<void> {
  for (const name of await readdir(CONTAINER_LINKS).catch(() => [])) {
    const link = join(CONTAINER_LINKS, name);
    const target = await readlink(link).catch(() => "");
    if (target.startsWith(POD_LOGS)) await rm(link);
  }
}
