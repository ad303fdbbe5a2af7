import type { PublishedMap, Reason } from "#hostmap/types.ts";
import { ifFound } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import { readConfigMap, watchConfigMap } from "./config-map.ts";
import { MAP_NAME, type MapObject, parseMap } from "./map-format.ts";
import { isMap } from "./published-map.ts";

/** A reader that follows the published map. M is the form in which it offers the map. */
export interface MapReader<M = PublishedMap> {
  /**
   * Calls `found` with the map at first and after each change. If the newest map cannot be used, calls it with the
   * Reason. A reader with a good map then keeps that map.
   */
  start(found: (offer: M | Reason) => void): Subscription;
}

/** A started reader. */
export interface Subscription {
  /** Milliseconds since the last event or attempt of the watch. Missing if nothing can hang. */
  inactiveMs?(): number;
  stop(): Promise<void>;
}

/** Follows the map that the controller publishes. */
export function kubeMapReader(deps: Parameters<typeof watchConfigMap>[1]): MapReader {
  return {
    start(found) {
      let newest: Held = { object: undefined };
      let parsed: Held | undefined;
      let last: PublishedMap | undefined;
      let isGood = false;
      const reader = new Reconciler({
        reconcile: async () => {
          const held = newest;
          if (held === parsed) return undefined;
          const offer = await parseMap(held.object, last);
          if (held !== newest) return undefined;
          parsed = held;
          held.object = undefined;
          const isOffered = isGood && isMap(offer) && offer.revision === last?.revision;
          isGood = isMap(offer);
          if (isMap(offer)) last = offer;
          if (!isOffered) found(offer);
          return undefined;
        },
      });
      const watcher = watchConfigMap<Held>(MAP_NAME, deps, {
        project: (object) => ({ object }),
        onChange: ({ after }) => {
          newest = after ?? { object: undefined };
          reader.enqueue();
        },
        onSynced: () => reader.enqueue(),
      });
      return {
        inactiveMs: () => watcher.state.inactiveMs,
        async stop() {
          await Promise.all([reader.stop(), watcher.stop()]);
        },
      };
    },
  };
}

/** The ConfigMap, until it is parsed: its text takes more memory than the map. Without an object, it is missing. */
interface Held {
  object: MapObject | undefined;
}

/** Offers the map of a reader in another form. */
export function readAs<M>(maps: MapReader, form: (map: PublishedMap) => M): MapReader<M> {
  return { start: (found) => maps.start((offer) => found(isMap(offer) ? form(offer) : offer)) };
}

/**
 * Reads the published map once. The code `map-missing` means that nothing is published. Rejects if the API server
 * refuses, and throws `data-corrupt` if its answer is something else.
 */
export async function readMap(client: Pick<KubeClient, "get">, namespace: string): Promise<PublishedMap | Reason> {
  return await parseMap(await ifFound(readConfigMap(client, namespace, MAP_NAME)));
}
