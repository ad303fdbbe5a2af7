import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { binary } from "../binaries.ts";
import type { Program } from "../processes.ts";
import { containerdArgs, kubeletArgs } from "./components.ts";
import { startDaemon } from "./daemons.ts";
import { type ClusterNode, daemonName, LOGS, NODE_HOSTS, STATE_FOLDER, statePath } from "./layout.ts";
import { run } from "./run.ts";

/**
 * Hides the machine's own hosts file only from this program, because the mount below stays in the program's mount
 * namespace.
 */
const WITH_NODE_HOSTS = `mount --make-private "$(findmnt --noheadings --output TARGET --target /etc/hosts)" &&
mount --bind "$0" /etc/hosts && exec "$@"`;

/**
 * Gives a program the files of a second node. The same paths lead to other files, below the node's own folder ($0).
 * The kubelet, containerd and the CNI plugins have fixed paths in /run and /var, and the agent has one kubelet folder
 * for all nodes. The second node's logs go to a folder beside those of the first node ($1). Before that, the mounts
 * of the first node are removed in this namespace: by their paths, containerd would take them for mounts of the
 * second node.
 */
const WITH_OWN_FOLDERS = `
cut -d" " -f5 /proc/self/mountinfo | grep "^${STATE_FOLDER}/" | tac | xargs --no-run-if-empty umount --lazy &&
mount --bind "$1" "$0/logs" && mount --rbind "$0" "$0${STATE_FOLDER}" &&
mount --rbind "$0/run" /run && mount --rbind "$0/var" /var && shift && exec "$@"`;

/** Starts a node's containerd. A second node's containerd runs in another mount namespace. */
export async function startContainerd(node: ClusterNode): Promise<Program> {
  const name = daemonName("containerd", node);
  const program = [await binary("containerd"), ...containerdArgs()];
  const options = { namespace: node.namespace, env: { PATH: `${statePath("bin")}:${process.env.PATH}` } };
  if (node.folder === STATE_FOLDER) return startDaemon(name, program[0] ?? "", program.slice(1), options);
  const logs = join(LOGS, node.name);
  for (const folder of ["logs", "run", "var/log", "var/tmp", STATE_FOLDER]) {
    await mkdir(join(node.folder, folder), { recursive: true });
  }
  await mkdir(join(logs, "pods"), { recursive: true });
  return startDaemon(
    name,
    "unshare",
    ["--mount", "--", "/bin/sh", "-c", WITH_OWN_FOLDERS, node.folder, logs, ...program],
    options,
  );
}

/**
 * Starts the kubelet. It copies /etc/hosts for pods on the host's network, and finds the node's file there in its own
 * mount namespace. It shares its mounts for pods with containerd.
 */
export async function startKubelet(node: ClusterNode, containerd: Program): Promise<Program> {
  const root = statePath("kubelet");
  const besideContainerd = [`--mount=/proc/${containerd.pid}/ns/mnt`, "--"];
  await mkdir(join(node.folder, "kubelet"), { recursive: true });
  await run("nsenter", ...besideContainerd, "mount", "--bind", root, root);
  await run("nsenter", ...besideContainerd, "mount", "--make-shared", root);
  const inNamespace = ["--mount", "--propagation", "unchanged", "--", "/bin/sh", "-c", WITH_NODE_HOSTS, NODE_HOSTS];
  const args = [...besideContainerd, "unshare", ...inNamespace, await binary("kubelet"), ...kubeletArgs(node)];
  const options = { namespace: node.namespace, env: { PATH: process.env.PATH ?? "" } };
  return startDaemon(daemonName("kubelet", node), "nsenter", args, options);
}
