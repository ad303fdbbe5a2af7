import { mkdir } from "node:fs/promises";
import { binary } from "../binaries.ts";
import { kubeletArgs } from "./components.ts";
import { type Daemon, startDaemon } from "./daemons.ts";
import { NODE_HOSTS, statePath } from "./layout.ts";
import { run } from "./run.ts";

/**
 * Hides the machine's own hosts file from a program, and from nothing else: the mount below stays in the program's
 * mount namespace.
 */
const WITH_NODE_HOSTS = `mount --make-private "$(findmnt --noheadings --output TARGET --target /etc/hosts)" &&
mount --bind "$0" /etc/hosts && exec "$@"`;

/**
 * Starts the kubelet, which copies /etc/hosts for pods on the host's network wherever it runs: it finds the node's
 * there, in a mount namespace of its own. What it mounts for pods it shares with containerd.
 */
export async function startKubelet(): Promise<Daemon> {
  const root = statePath("kubelet");
  await mkdir(root, { recursive: true });
  await run("mount", "--bind", root, root);
  await run("mount", "--make-shared", root);
  const inNamespace = ["--mount", "--propagation", "unchanged", "--", "/bin/sh", "-c", WITH_NODE_HOSTS, NODE_HOSTS];
  const args = [...inNamespace, await binary("kubelet"), ...kubeletArgs()];
  return startDaemon("kubelet", "unshare", args, { namespace: "node", env: { PATH: process.env.PATH ?? "" } });
}
