import type { PublishedMap, Reason } from "#hostmap/types.ts";
import type { MapReader, Subscription } from "#lib/documents/map-reader.ts";
import { isMap } from "#lib/documents/published-map.ts";

export interface MapOnDemand {
  /** Whether the map is followed: a pod of the node needs it, or did a while ago. */
  readonly following: boolean;
  /** Whether there is a map. */
  readonly hasMap: boolean;
  /** Why the last map that was offered is not used. */
  readonly problem: Reason | undefined;
  readonly inactiveMs: number;
  /** Follows the map from now on if a pod needs it; if none has for a while, follows it no more. */
  need(isNeeded: boolean): void;
  stop(): Promise<void>;
}

/**
 * The whole map is read when the first pod needs it, so pods that come and go do not make the agent read it again
 * and again.
 */
const IDLE_MS = 10 * 60_000;

/**
 * Follows the map while a pod of the node does: on other nodes, each change would be sent to the agent for nothing,
 * and the map of 50,000 names would take megabytes of its memory. `setMap` gets undefined once it is followed no
 * more.
 */
export function followOnDemand(deps: {
  readonly maps: MapReader;
  readonly setMap: (map: PublishedMap | undefined) => void;
  /** A map was offered that is not used; the last good one stays. */
  readonly onProblem: (problem: Reason) => void;
  /** Milliseconds, never going back. */
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
