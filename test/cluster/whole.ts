import { rm } from "node:fs/promises";
import { installAddons } from "./addons/all.ts";
import { Cluster } from "./cluster.ts";
import { withLock } from "./lock.ts";
import { STATE_FOLDER, TEMPORARY_FILE } from "./node/layout.ts";
import { requireRoot } from "./node/requirements.ts";
import { enforcesNetworkPolicies, hasLayout, isUp, type UpOptions, up } from "./node/up.ts";
import { type Progress, progressLines } from "./progress.ts";

/** Runs `work` while no other process starts or stops the machine's cluster. */
export async function withMachine<T>(progress: Progress, work: () => Promise<T>): Promise<T> {
  requireRoot();
  const waiting = () => progress.status("waiting for another process that brings a cluster up or down");
  return await withLock(`${STATE_FOLDER}.lock`, work, waiting);
}

/**
 * Provides this machine's cluster with all add-ons, and keeps what already exists. `fresh` says whether the cluster
 * had to be started. A `temporary` cluster ends with the run of tests that asked for it, unless a later call passes
 * `temporary: false`. `networkPolicies`: a cluster with the other setting is replaced; undefined accepts either. A
 * cluster with other address families or nodes than this run is replaced.
 */
export async function wholeCluster(
  progress: Progress,
  { bare = false, temporary, networkPolicies }: UpOptions & { bare?: boolean } = {},
): Promise<{ cluster: Cluster; fresh: boolean }> {
  return await withMachine(progress, async () => {
    const isOther = networkPolicies !== undefined && networkPolicies !== (await enforcesNetworkPolicies());
    const fresh = isOther || !(await hasLayout()) || !(await isUp());
    if (fresh) await up(progress, { temporary: temporary ?? false, networkPolicies: networkPolicies ?? false });
    else if (temporary === false) await rm(TEMPORARY_FILE, { force: true });
    const cluster = new Cluster();
    if (!bare) await installAddons(cluster, progress);
    return { cluster, fresh };
  });
}

/** The cluster of the end-to-end tests. It is started if it does not run. */
export async function withCluster(): Promise<Cluster> {
  return (await wholeCluster(progressLines())).cluster;
}
