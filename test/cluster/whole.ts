import { installAddons } from "./addons/all.ts";
import { Cluster } from "./cluster.ts";
import { withLock } from "./lock.ts";
import { STATE_FOLDER } from "./node/layout.ts";
import { requireRoot } from "./node/requirements.ts";
import { enforcesNetworkPolicies, hasLayout, isUp, up } from "./node/up.ts";
import { type Progress, progressLines } from "./progress.ts";

/** Runs `work` while no other process starts or stops the machine's cluster. */
export async function withMachine<T>(progress: Progress, work: () => Promise<T>): Promise<T> {
  requireRoot();
  const waiting = () => progress.status("waiting for another process that brings a cluster up or down");
  return await withLock(`${STATE_FOLDER}.lock`, work, waiting);
}

/**
 * Whether this machine's cluster runs, with the address families and nodes of this run. `networkPolicies`: whether it
 * must enforce them; undefined accepts either.
 */
export async function isAsWanted(networkPolicies?: boolean): Promise<boolean> {
  const isOther = networkPolicies !== undefined && networkPolicies !== (await enforcesNetworkPolicies());
  return !isOther && (await hasLayout()) && (await isUp());
}

/**
 * Provides this machine's cluster with all add-ons, and keeps what already exists. `fresh` says whether the cluster
 * had to be started. A cluster that is not as wanted is replaced.
 */
export async function wholeCluster(
  progress: Progress,
  { networkPolicies }: { networkPolicies?: boolean } = {},
): Promise<{ cluster: Cluster; fresh: boolean }> {
  return await withMachine(progress, async () => {
    const fresh = !(await isAsWanted(networkPolicies));
    if (fresh) await up(progress, networkPolicies);
    const cluster = new Cluster();
    await installAddons(cluster, progress);
    return { cluster, fresh };
  });
}

/** The cluster of the end-to-end tests. It is started if it does not run. */
export async function withCluster(): Promise<Cluster> {
  return (await wholeCluster(progressLines())).cluster;
}
