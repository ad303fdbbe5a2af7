import type { PublishedMap, Reason } from "../hostmap/types.ts";

/** Where the webhook's or the agent's map comes from; `feed.ts` is the one of a cluster. */
export interface MapSource {
  /** Calls `found` with what there is, at first and whenever it changed: a map, or why the newest is not to be used. */
  start(found: (offer: PublishedMap | Reason) => void): Subscription;
}

/** A source that was started. */
export interface Subscription {
  /** Milliseconds since it last heard or tried anything; absent where nothing can hang. */
  inactiveMs?(): number;
  stop(): Promise<void>;
}

/** Whether an offer is a map. */
export function isMap(offer: PublishedMap | Reason): offer is PublishedMap {
  return "revision" in offer;
}
