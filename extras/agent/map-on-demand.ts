import type { PublishedMap, Reason } from "#hostmap/types.ts";
import type { MapReader, Subscription } from "#lib/documents/map-reader.ts";
import { isMap } from "#lib/documents/published-map.ts";

export interface MapOnDemand {
  /** Whether the map is followed: the node needs it, or needed it less than `IDLE_MS` ago. */
  readonly following: boolean;
  /** Whether a map has arrived. */
  readonly hasMap: boolean;
  /** Why the last offered map is not used. Undefined if it is used. */
  readonly problem: Reason | undefined;
  readonly inactiveMs: number;
  /** Starts to follow the map if it is needed. Stops if it has not been needed for `IDLE_MS`. */
  need(isNeeded: boolean): void;
  stop(): Promise<void>;
}

/**
 * How long the map is still followed after it was last needed, in milliseconds. A new start reads the whole map, so
 * short-lived pods must not cause one each time.
 */
const IDLE_MS = 10 * 60_000;

/**
 * Follows the map only while the node needs it. On other nodes, the agent would receive each change for nothing, and
 * a map of 50,000 names would take megabytes of its memory. When the map is no longer followed, `setMap` gets
 * undefined.
 */
export function followOnDemand(deps: {
  readonly maps: MapReader;
  readonly setMap: (map: PublishedMap | undefined) => void;
  /** Called when an offered map cannot be used. The last good one stays. */
  readonly onProblem: (problem: Reason) => void;
  /** A monotonic clock in milliseconds. */
  readonly now: () => number;
}): MapOnDemand {
  const { maps, setMap, onProblem, now } = deps;
  let subscription: Subscription | undefined;
  let neededAt = 0;
  let hasMap = false;
  let problem: Reason | undefined;
  let generation = 0;
  const begin = (): void => {
    const own = ++generation;
    subscription = maps.start((offer) => {
      if (own !== generation) return;
      problem = isMap(offer) ? undefined : offer;
      hasMap ||= isMap(offer);
      if (isMap(offer)) setMap(offer);
      else onProblem(offer);
    });
  };
  const end = async (): Promise<void> => {
    const ended = subscription;
    generation += 1;
    subscription = undefined;
    hasMap = false;
    problem = undefined;
    await ended?.stop();
  };
  return {
    get following() {
      return subscription !== undefined;
    },
    get hasMap() {
      return hasMap;
    },
    get problem() {
      return problem;
    },
    get inactiveMs() {
      return subscription?.inactiveMs?.() ?? 0;
    },
    need(isNeeded) {
      if (isNeeded) {
        neededAt = now();
        if (subscription === undefined) begin();
      } else if (subscription !== undefined && now() - neededAt >= IDLE_MS) {
        void end();
        setMap(undefined);
      }
    },
    stop: end,
  };
}
