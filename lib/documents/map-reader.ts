import type { PublishedMap, Reason } from "#hostmap/types.ts";
import { statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import type { StartTimer } from "#lib/kube/time.ts";
import { watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { PUBLISHED_MAP, SnapshotAssembler, SnapshotBuilder, type SnapshotForm } from "./map-builder.ts";
import { followMap } from "./map-follower.ts";
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
import type { HashedShard } from "./published-map.ts";

/** A reader that follows the published map, in the form that it keeps it in. */
export interface MapReader<M = PublishedMap> {
  /** Calls `found` with the map at first and after each change, or with the Reason why the newest cannot be used. */
  start(found: (offer: M | Reason) => void): Subscription;
}

/** A reader that was started. */
export interface Subscription {
  /** Milliseconds since the last event or attempt of the watch; absent where nothing can hang. */
  inactiveMs?(): number;
  stop(): Promise<void>;
}

/** What is kept of a ConfigMap. */
interface Part {
  readonly name: string;
  /** Until it has been parsed. */
  text: string | undefined;
}

interface MapReaderDeps {
  readonly client: Pick<KubeClient, "get" | "stream">;
  readonly namespace: string;
  readonly log: Logger;
  readonly startTimer?: StartTimer;
}

/** Follows the map that the controller publishes: ConfigMaps of our own namespace, by their label. */
export function kubeMapReader(deps: MapReaderDeps): MapReader {
  return kubeReaderOf(PUBLISHED_MAP, deps);
}

/** The same, in another form. */
export function kubeReaderOf<P extends HashedShard, M extends { readonly revision: string }>(
  form: SnapshotForm<P, M>,
  deps: MapReaderDeps,
): MapReader<M> {
  return {
    start(found) {
      const builder = new SnapshotAssembler(form);
      const follower = followMap(builder, found, deps.startTimer);
      const watcher = watchObjects<Part, MapConfigMap>({
        client: deps.client,
        path: corePath("configmaps", deps.namespace),
        labelSelector: MAP_SELECTOR,
        project: (object) => ({ name: object.metadata.name, text: textOf(object) }),
        onChange({ before, after }) {
          const name = (after ?? before)?.name;
          if (name !== undefined) builder.put(name, after?.text);
          if (after !== undefined) after.text = undefined;
          follower.changed();
        },
        onSynced: () => follower.synced(),
        log: deps.log,
      });
      return {
        inactiveMs: () => watcher.state.inactiveMs,
        async stop() {
          follower.stop();
          await watcher.stop();
        },
      };
    },
  };
}

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

/** What a reader that follows the map makes of all its ConfigMaps. */
export function builderOf(objects: readonly MapConfigMap[]): SnapshotBuilder {
  const builder = new SnapshotBuilder();
  for (const object of objects) builder.put(object.metadata.name, textOf(object));
  return builder;
}

/** Reads what the leader keeps beside the map. Rejects if the API server refuses. */
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
