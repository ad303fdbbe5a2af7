import type { PublishedMap, Reason } from "#hostmap/types.ts";
import { statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { SnapshotBuilder } from "./map-builder.ts";
import {
  MAP_SELECTOR,
  type MapConfigMap,
  type MapIndex,
  type MapState,
  parseState,
  STATE_KEY,
  STATE_NAME,
  textOf,
} from "./map-format.ts";

/**
 * Reads the published map once. The code `index-missing` means that nothing is published. Rejects if the API server
 * refuses.
 */
export async function readSnapshot(
  client: Pick<KubeClient, "list">,
  namespace: string,
): Promise<{
  readonly index: MapIndex | Reason;
  readonly map: PublishedMap | Reason;
  readonly state: MapState | Reason;
}> {
  const { items } = await client.list<MapConfigMap>(corePath("configmaps", namespace), { labelSelector: MAP_SELECTOR });
  const builder = builderOf(items);
  const state = stateOf(items.find(({ metadata }) => metadata.name === STATE_NAME));
  return { index: builder.index, map: builder.build(), state };
}

/** Returns a builder that holds all these ConfigMaps, like that of a reader that follows the map. */
export function builderOf(objects: readonly MapConfigMap[]): SnapshotBuilder {
  const builder = new SnapshotBuilder();
  for (const object of objects) builder.put(object.metadata.name, textOf(object));
  return builder;
}

/** Reads the state that the leader keeps beside the map. Rejects if the API server refuses. */
export async function readState(client: Pick<KubeClient, "get">, namespace: string): Promise<MapState | Reason> {
  try {
    return stateOf(await client.get<MapConfigMap>(corePath("configmaps", namespace, STATE_NAME)));
  } catch (error) {
    if (statusOf(error) !== 404) throw error;
    return stateOf(undefined);
  }
}

function stateOf(object: MapConfigMap | undefined): MapState | Reason {
  const text = object?.data?.[STATE_KEY];
  if (text !== undefined) return parseState(text);
  return { code: "index-missing", text: `ConfigMap ${STATE_NAME} with key ${STATE_KEY} not found` };
}
