import type { RemovalHold } from "#hostmap/removal-guard.ts";
import type { Logger } from "#lib/telemetry/log.ts";

/** Reports held removals and a full map: once when the state begins, not while it lasts. One instance per term. */
export class MapAnnouncements {
  readonly #log: Logger;
  readonly #onHeld: ((names: number, of: number, until: number) => void) | undefined;
  /** The id of the last hold. */
  #heldSince: number | undefined;
  #overflowing = 0;

  /** `onHeld` is called once for each hold. */
  constructor(log: Logger, onHeld: ((names: number, of: number, until: number) => void) | undefined) {
    this.#log = log;
    this.#onHeld = onHeld;
  }

  /** Reports that removals are held back; undefined: no removal is held back. */
  hold(hold: RemovalHold | undefined): void {
    if (hold?.since === this.#heldSince) return;
    this.#heldSince = hold?.since;
    if (hold === undefined) return;
    this.#log.warn(
      { code: "removal-held", ...hold },
      "more than half of the names would be removed at once; the removal is held back",
    );
    this.#onHeld?.(hold.names, hold.of, hold.until);
  }

  /** Reports how many names do not fit into the map. */
  overflow(names: number): void {
    if (names === this.#overflowing) return;
    this.#overflowing = names;
    if (names > 0) this.#log.error({ code: "map-full", names }, "names do not fit into the map");
  }
}
