import { rm } from "node:fs/promises";
import { installAddons } from "./addons/all.ts";
import { Cluster } from "./cluster.ts";
import { withLock } from "./lock.ts";
import { STATE_FOLDER, TEMPORARY_FILE } from "./node/layout.ts";
import { requireRoot } from "./node/requirements.ts";
import { enforcesNetworkPolicies, hasLayout, isUp, type UpOptions, up } from "./node/up.ts";
import { type Progress, progressLines } from "./progress.ts";

/** Runs `work` while no other process brings the machine's cluster up or down. */
export async function withMachine<T>(progress: Progress, work: () => Promise<T>): Promise<T> {
  requireRoot();
  const waiting = () => progress.status("waiting for another process that brings a cluster up or down");
  return await withLock(`${STATE_FOLDER}.lock`, work, waiting);
}

/**
 * This machine's cluster with all add-ons; what is there already stays. `fresh` says whether the node had to be
 * brought up. One that is brought up as `temporary` goes with the run of tests that asked for it, unless somebody
 * asks for it to stay (false). `networkPolicies`: one that does not enforce them (false: that does) is replaced;
 * undefined takes either. One with other families or nodes than this run is replaced.
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

/** The cluster of the end-to-end tests, brought up where it is not. */
export async function withCluster(): Promise<Cluster> {
  return (await wholeCluster(progressLines())).cluster;
}
