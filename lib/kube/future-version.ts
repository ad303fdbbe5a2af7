import type { KubeClient } from "./client.ts";
import type { Query } from "./paths.ts";
import type { ApiList, ReadOptions } from "./types.ts";

/**
 * Whether a resourceVersion is newer than the API server's current one. After a restore from a backup, versions are
 * lower than before, and the server does not report it. A watch from a future version gets no events until the server
 * reaches that version.
 */
export async function isFutureVersion(
  client: Pick<KubeClient, "get">,
  version: string,
  { path, query, options }: { readonly path: string; readonly query: Query; readonly options: ReadOptions },
): Promise<boolean> {
  // A list without a resourceVersion is a quorum read: at least as new as anything the server has returned before.
  const { metadata } = await client.get<ApiList<unknown>>(path, { ...query, limit: 1 }, options);
  return isNewer(version, metadata?.resourceVersion ?? version);
}

/** Versions are integers (KEP-5504) that may exceed JavaScript's safe range. Other values are not compared. */
export function isNewer(version: string, other: string): boolean {
  return [version, other].every((each) => /^[0-9]+$/.test(each)) && BigInt(version) > BigInt(other);
}
