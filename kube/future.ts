import type { KubeClient, ReadOptions } from "./client.ts";
import type { Query } from "./paths.ts";
import type { ApiList } from "./types.ts";

/**
 * Whether a version is still to come for the API server. After a restore from a backup its versions begin again from below those that
 * it gave before, and it does not say so: a watch from a version that is still to come is silent until that has come.
 */
export async function isFromTheFuture(
  client: Pick<KubeClient, "get">,
  version: string,
  { path, query, options }: { readonly path: string; readonly query: Query; readonly options: ReadOptions },
): Promise<boolean> {
  // Without a version of its own a list is at least as new as all that was ever told.
  const { metadata } = await client.get<ApiList<unknown>>(path, { ...query, limit: 1 }, options);
  return isNewer(version, metadata?.resourceVersion ?? version);
}

/** Versions are whole numbers (KEP-5504), too large for JavaScript's own; what is none is not compared. */
function isNewer(version: string, other: string): boolean {
  return [version, other].every((each) => /^[0-9]+$/.test(each)) && BigInt(version) > BigInt(other);
}
