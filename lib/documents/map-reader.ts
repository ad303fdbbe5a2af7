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
  FOLLOWED_SELECTOR,
  INDEX_KEY,
  INDEX_NAME,
  isSuperseded,
  MAP_SELECTOR,
  type MapConfigMap,
  type MapIndex,
  parseIndex,
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
        labelSelector: FOLLOWED_SELECTOR,
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

/** Reads the published map once. The code `index-missing` means that nothing is published. Rejects if the API server refuses. */
export async function readSnapshot(
  client: Pick<KubeClient, "list">,
  namespace: string,
): Promise<{ readonly index: MapIndex | Reason; readonly map: PublishedMap | Reason }> {
  const { items } = await client.list<MapConfigMap>(corePath("configmaps", namespace), { labelSelector: MAP_SELECTOR });
  const builder = builderOf(items);
  const { index } = builder;
  const text = items.find(({ metadata }) => metadata.name === INDEX_NAME)?.data?.[INDEX_KEY];
  const withTargets = text === undefined ? undefined : parseIndex(text);
  const targets = withTargets === undefined || "code" in withTargets ? [] : withTargets.targets;
  return { index: "code" in index ? index : { ...index, targets }, map: builder.build() };
}

/** The parts of the map that those see who follow it, of all its ConfigMaps. An index of format 0 that is superseded may be late. */
export function builderOf(objects: readonly MapConfigMap[]): SnapshotBuilder {
  const builder = new SnapshotBuilder();
  for (const object of objects) if (!isSuperseded(object)) builder.put(object.metadata.name, textOf(object));
  return builder;
}

/** Reads the index once, without the shards. Rejects if the API server refuses. */
export async function readIndex(client: Pick<KubeClient, "get">, namespace: string): Promise<MapIndex | Reason> {
  const builder = new SnapshotBuilder();
  try {
    const object = await client.get<MapConfigMap>(corePath("configmaps", namespace, INDEX_NAME));
    builder.put(INDEX_NAME, object.data?.[INDEX_KEY]);
  } catch (error) {
    if (statusOf(error) !== 404) throw error;
  }
  return builder.index;
}
