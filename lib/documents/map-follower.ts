import type { Reason } from "#hostmap/types.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import { type StartTimer, startTimer } from "#lib/kube/time.ts";
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
  /**
   * Everything that there is has arrived once. Before that a missing part means nothing, and an index may not be in
   * force.
   */
  synced(): void;
  stop(): void;
}

/**
 * Passes every map that fits together to `found`. What does not fit for longer than `PATIENCE_MS` is passed as a
 * Reason: a reader that has a good map keeps it, and one that has none waits, whatever parts there are, and gets
 * the Reason again and again.
 */
export function followMap<M extends { readonly revision: string }>(
  assembler: { build(): M | Reason },
  found: (offer: M | Reason) => void,
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
  const build = () => (synced ? assembler.build() : NOT_LISTED);
  const giveUp = (): void => {
    if (!known) waitLonger();
    const whole = build();
    if (!isMap(whole)) found(whole);
  };
  const look = (): undefined => {
    const whole = build();
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
