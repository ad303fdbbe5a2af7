import type { Reason } from "./types.ts";

/** When names may be removed from the map. Times are milliseconds; `now` is any monotonic clock. */
export interface RemovalRules {
  /** How long a name stays after its last claim is gone. */
  readonly vanishMs: number;
  /** The smallest map, in names, that the guard protects. */
  readonly guardNames: number;
  /** How long a suspicious removal is held; never shorter than `vanishMs`. */
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
 * The published names, and those that are about to be removed:
 *
 *   wanted ──> line ──(vanished)──> leaving ──(vanishMs)──> gone
 *                └──────(back)────────┘  └─(more than half at once)─> held ──(holdMs or confirm)──> gone
 *
 * Additions and changed addresses are always published at once: a hold must not delay a new certificate.
 */
export class PublishedNames {
  readonly #rules: RemovalRules;
  readonly #lines = new Map<string, readonly string[]>();
  readonly #leaving = new Map<string, number>();
  #hold: { readonly id: string; readonly since: number } | undefined;
  #changed = new Set<string>();

  constructor(rules: RemovalRules) {
    this.#rules = rules;
  }

  /** Loads what an earlier leader published, before the first reconcile. */
  load(lines: Iterable<readonly [string, readonly string[]]>): void {
    for (const [name, addresses] of lines) this.#lines.set(name, addresses);
  }

  /** Publishes a name with these addresses. No address means "unknown": an existing line stays unchanged. */
  want(name: string, addresses: readonly string[]): void {
    this.#leaving.delete(name);
    if (addresses.length === 0) return;
    const line = this.#lines.get(name);
    if (line !== undefined && sameAddresses(line, addresses)) return;
    this.#lines.set(name, addresses);
    this.#changed.add(name);
  }

  /** Starts the removal of a name that no object claims any more. */
  release(name: string, now: number): void {
    if (this.#lines.has(name) && !this.#leaving.has(name)) this.#leaving.set(name, now);
  }

  /** Removes names that are due, starts or ends the hold, and returns the names whose line changed since the last call. */
  settle(now: number): ReadonlySet<string> {
    if (this.#hold !== undefined && now - this.#hold.since >= this.#holdMs) {
      this.#hold = undefined;
      this.#removeDue(now);
    }
    this.#guard(now);
    if (this.#hold === undefined) this.#removeDue(now);
    const changed = this.#changed;
    this.#changed = new Set();
    return changed;
  }

  /** Executes a held removal at once, if `id` is that of the current hold. */
  confirm(id: string): Reason | undefined {
    if (this.#hold === undefined) return { code: "nothing-held", text: "no removal is held" };
    if (this.#hold.id !== id) return { code: "other-hold", text: `the current hold is ${this.#hold.id}, not ${id}` };
    this.#hold = undefined;
    for (const name of this.#leaving.keys()) this.#remove(name);
    return undefined;
  }

  /** The published addresses of a name, or undefined if it is not published. */
  addressesOf(name: string): readonly string[] | undefined {
    return this.#lines.get(name);
  }

  get size(): number {
    return this.#lines.size;
  }

  /** Names that are waiting for removal, with the time their last claim went. */
  get leaving(): ReadonlyMap<string, number> {
    return this.#leaving;
  }

  get hold(): RemovalHold | undefined {
    if (this.#hold === undefined) return undefined;
    const { id, since } = this.#hold;
    return { id, since, until: since + this.#holdMs, names: this.#leaving.size, of: this.#lines.size };
  }

  /** When `settle` must be called again if nothing else changes. */
  nextDeadline(): number | undefined {
    if (this.#hold !== undefined) return this.#hold.since + this.#holdMs;
    // Names are added to `leaving` in time order, so the first is the oldest.
    const [oldest] = this.#leaving.values();
    return oldest === undefined ? undefined : oldest + this.#rules.vanishMs;
  }

  /** If more than half of a large enough map would go within one `vanishMs`, a source has probably failed. */
  #guard(now: number): void {
    const suspicious = this.#lines.size >= this.#rules.guardNames && this.#leaving.size * 2 > this.#lines.size;
    if (!suspicious) this.#hold = undefined;
    else this.#hold ??= { id: now.toString(36), since: now };
  }

  /** A shorter hold would end before any of its names is due. */
  get #holdMs(): number {
    return Math.max(this.#rules.holdMs, this.#rules.vanishMs);
  }

  /**
   * Names that vanished during a hold may not be due when it ends: they wait for their own time, and the guard checks them
   * again.
   */
  #removeDue(now: number): void {
    for (const [name, since] of this.#leaving) if (now - since >= this.#rules.vanishMs) this.#remove(name);
  }

  #remove(name: string): void {
    this.#leaving.delete(name);
    this.#lines.delete(name);
    this.#changed.add(name);
  }
}

function sameAddresses(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((address, index) => address === b[index]);
}
