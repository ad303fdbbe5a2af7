/** Rules for removing names from the map. Times are milliseconds. `now` is any monotonic clock. */
export interface RemovalRules {
  /** How long a name stays after its last claim is gone. */
  readonly vanishMs: number;
  /** The smallest map, in names, that the guard protects. */
  readonly guardNames: number;
  /** How long a suspicious removal is held. Never shorter than `vanishMs`. */
  readonly holdMs: number;
}

/** A removal that is held until it times out. */
export interface RemovalHold {
  readonly since: number;
  readonly until: number;
  /** Names waiting for removal, and the size of the map. */
  readonly names: number;
  readonly of: number;
}

/**
 * Holds removals if more than half of a large enough map would be removed within one `vanishMs`: probably a source
 * has failed. The hold ends when it times out, or when enough names are back.
 */
export class RemovalGuard {
  readonly #rules: RemovalRules;
  #since: number | undefined;

  constructor(rules: RemovalRules) {
    this.#rules = rules;
  }

  /** Ends a hold whose time is over. Returns true if it did. */
  expire(now: number): boolean {
    if (this.#since === undefined || now - this.#since < this.#holdMs) return false;
    this.#since = undefined;
    return true;
  }

  /** Whether names that are due may be removed now. `leaving` of the `size` names of the map wait for removal. */
  mayRemove(leaving: number, size: number, now: number): boolean {
    const suspicious = size >= this.#rules.guardNames && leaving * 2 > size;
    if (!suspicious) this.#since = undefined;
    else this.#since ??= now;
    return this.#since === undefined;
  }

  /** When the current hold times out. Undefined if nothing is held. */
  get until(): number | undefined {
    return this.#since === undefined ? undefined : this.#since + this.#holdMs;
  }

  /** Returns the current hold, with the numbers of its names. */
  describe(names: number, of: number): RemovalHold | undefined {
    if (this.#since === undefined) return undefined;
    return { since: this.#since, until: this.#since + this.#holdMs, names, of };
  }

  /** Duration of a hold. With less than `vanishMs`, it would end before any of its names is due. */
  get #holdMs(): number {
    return Math.max(this.#rules.holdMs, this.#rules.vanishMs);
  }
}
