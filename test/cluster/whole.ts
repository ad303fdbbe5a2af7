import { installAddons } from "./addons/all.ts";
import { Cluster } from "./cluster.ts";
import { withLock } from "./lock.ts";
import { STATE_FOLDER } from "./node/layout.ts";
import { NotHere } from "./node/requirements.ts";
import { isUp, up } from "./node/up.ts";
import { type Progress, progressLines } from "./progress.ts";

/** Runs `work` while no other process brings the machine's cluster up or down. */
export async function withMachine<T>(progress: Progress, work: () => Promise<T>): Promise<T> {
  if (process.getuid?.() !== 0)
    throw new NotHere("a node needs root (namespaces, mounts): run it with sudo, or use kind");
  const waiting = () => progress.status("waiting for another process that brings a cluster up or down");
  return await withLock(`${STATE_FOLDER}.lock`, work, waiting);
}

/** This machine's cluster with all add-ons; what is there already stays. `fresh` says whether the node had to be brought up. */
export async function wholeCluster(
  progress: Progress,
  { bare = false } = {},
): Promise<{ cluster: Cluster; fresh: boolean }> {
  return await withMachine(progress, async () => {
    const fresh = !(await isUp());
    if (fresh) await up(progress);
    const cluster = new Cluster();
    if (!bare) await installAddons(cluster, progress);
    return { cluster, fresh };
  });
}

/** The cluster of the end-to-end tests, brought up where it is not. */
export async function withCluster(): Promise<Cluster> {
  return (await wholeCluster(progressLines())).cluster;
}
