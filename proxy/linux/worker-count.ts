/** What one worker costs, about 8 MB, is worth it only up to here: a proxy on a large node is one of several. */
const MAX_AUTOMATIC = 4;

/**
 * The number of relay threads for `proxy.workers`. 0, automatic: half of the cores, between 1 and 4. The kernel's side of a relayed
 * connection, and whatever else the node runs, need the other half.
 *
 * `cores`: those that the process may use, by its affinity and its cgroup's CPU limit (`os.availableParallelism()`).
 */
export function workerCount(configured: number, cores: number): number {
  if (configured > 0) return configured;
  return Math.min(MAX_AUTOMATIC, Math.max(1, Math.floor(cores / 2)));
}
