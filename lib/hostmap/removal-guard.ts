import type { Reason } from "./types.ts";

/** Rules for removing names from the map. Times are milliseconds. `now` is any monotonic clock. */
export interface RemovalRules {
  /** How long a name stays after its last claim is gone. */
  readonly vanishMs: number;
  /** The smallest map, in names, that the guard protects. */
  readonly guardNames: number;
  /** How long a suspicious removal is held. Never shorter than `vanishMs`. */
  readonly holdMs: number;
}

/** A removal that is held until it times out or a person confirms it by its id. */
export interface RemovalHold {
  /** Derived from the start time, so that an old confirmation never releases a later hold. */
  readonly id: string;
  readonly since: number;
  readonly until: number;
  /** Names waiting for removal, and the size of the map. */
  readonly names: number;
  readonly of: number;
}

/**
 * Holds removals if more than half of a large enough map would be removed within one `vanishMs`: probably a source
 * has failed. The hold ends when it times out, when a person confirms it, or when enough names are back.
 */
export class RemovalGuard {
  readonly #rules: RemovalRules;
  #hold: { readonly id: string; readonly since: number } | undefined;

  constructor(rules: RemovalRules) {
    this.#rules = rules;
  }

  /** Ends a hold whose time is over. Returns true if it did. */
  expire(now: number): boolean {
    if (this.#hold === undefined || now - this.#hold.since < this.#holdMs) return false;
    this.#hold = undefined;
    return true;
  }

  /** Whether names that are due may be removed now. `leaving` of the `size` names of the map wait for removal. */
  mayRemove(leaving: number, size: number, now: number): boolean {
    const suspicious = size >= this.#rules.guardNames && leaving * 2 > size;
    if (!suspicious) this.#hold = undefined;
    else this.#hold ??= { id: now.toString(36), since: now };
    return this.#hold === undefined;
  }

  /** Ends the hold if `id` is that of the current hold. Otherwise returns a reason. */
  confirm(id: string): Reason | undefined {
    if (this.#hold === undefined) return { code: "nothing-held", text: "no removal is held" };
    if (this.#hold.id !== id) return { code: "other-hold", text: `the current hold is ${this.#hold.id}, not ${id}` };
    this.#hold = undefined;
    return undefined;
  }

  /** When the current hold times out. Undefined if nothing is held. */
  get until(): number | undefined {
    return this.#hold && this.#hold.since + this.#holdMs;
  }

  /** Returns the current hold, with the numbers of its names. */
  describe(names: number, of: number): RemovalHold | undefined {
    if (this.#hold === undefined) return undefined;
    const { id, since } = this.#hold;
    return { id, since, until: since + this.#holdMs, names, of };
  }

  /** Duration of a hold. With less than `vanishMs`, it would end before any of its names is due. */
  get #holdMs(): number {
    return Math.max(this.#rules.holdMs, this.#rules.vanishMs);
  }
}
