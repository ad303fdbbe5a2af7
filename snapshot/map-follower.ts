import type { PublishedMap, Reason } from "../hostmap/types.ts";
import { Reconciler } from "../kube/reconciler.ts";
import { type StartTimer, startTimer } from "../kube/time.ts";
import type { SnapshotBuilder } from "./map-builder.ts";
import { isMap } from "./published-map.ts";

/** A publication writes its shards and then the index; what does not fit for longer than this is not just under way. */
export const PATIENCE_MS = 10_000;
/** ConfigMaps that come together are looked at together. */
export const SETTLE_MS = 5;

const NOT_LISTED: Reason = { code: "map-not-listed", text: "the ConfigMaps of the map have not all been read yet" };

/** Watches over an assembler's parts. */
interface MapFollower {
  /** A part arrived or went away. */
  changed(): void;
  /** Everything that there is has arrived once; before that, a missing part means nothing. */
  synced(): void;
  stop(): void;
}

/**
 * Tells `found` of every map that fits together. What does not fit is left alone for a while, since the last good map is in use;
 * then `found` hears why. Only without a last good map is what is there taken as it is.
 */
export function followMap(
  assembler: SnapshotBuilder,
  found: (offer: PublishedMap | Reason) => void,
  start: StartTimer = startTimer,
): MapFollower {
  let known = false;
  let synced = false;
  let patience: ReturnType<StartTimer> | undefined;

  const waitLonger = (): void => {
    patience ??= start(() => {
      patience = undefined;
      giveUp();
    }, PATIENCE_MS);
  };
  const giveUp = (): void => {
    const partial = synced && !known ? assembler.buildPartial() : undefined;
    if (partial !== undefined && isMap(partial)) {
      known = true;
      found(partial);
    }
    if (!known) waitLonger();
    const whole = synced ? assembler.build() : NOT_LISTED;
    if (!isMap(whole)) found(whole);
  };
  const look = (): undefined => {
    const whole = assembler.build();
    if (!isMap(whole)) {
      waitLonger();
      return undefined;
    }
    patience?.();
    patience = undefined;
    known = true;
    found(whole);
  };

  const reconciler = new Reconciler({ reconcile: look, startTimer: start });
  waitLonger();
  const changed = (): void => {
    reconciler.enqueue(SETTLE_MS);
  };
  return {
    changed,
    synced() {
      synced = true;
      changed();
    },
    stop() {
      void reconciler.stop();
      patience?.();
    },
  };
}
