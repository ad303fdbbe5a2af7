import type { Reason } from "./types.ts";

/** When names may leave the map. Times are milliseconds; `now` is any clock that only goes forward. */
export interface RemovalRules {
  /** A vanished name stays this long. */
  readonly vanishMs: number;
  /** The guard watches maps of at least this many names. */
  readonly guardNames: number;
  /** How long a guarded loss is held back; never shorter than `vanishMs`. */
  readonly holdMs: number;
}

/** A loss that is being held back, until the time runs out or a person confirms it by its id. */
export interface RemovalHold {
  /** Made from the time it began, so that an old confirmation never releases a later hold. */
  readonly id: string;
  readonly since: number;
  readonly until: number;
  /** Names waiting to leave, and the size of the map. */
  readonly names: number;
  readonly of: number;
}

/**
 * What is published, name by name, and what is about to leave:
 *
 *   wanted ──> line ──(vanished)──> leaving ──(vanishMs)──> gone
 *                └──────(back)────────┘  └─(more than half at once)─> held ──(holdMs or confirm)──> gone
 *
 * Additions and changed addresses always go through at once: a hold must not stop a new certificate.
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

  /** Takes over what an earlier leader published, before anything is decided anew. */
  load(lines: Iterable<readonly [string, readonly string[]]>): void {
    for (const [name, addresses] of lines) this.#lines.set(name, addresses);
  }

  /** A name that is wanted, at these addresses. None known means "unknown": a published line stays as it is. */
  want(name: string, addresses: readonly string[]): void {
    this.#leaving.delete(name);
    if (addresses.length === 0) return;
    const line = this.#lines.get(name);
    if (line !== undefined && sameAddresses(line, addresses)) return;
    this.#lines.set(name, addresses);
    this.#changed.add(name);
  }

  /** A name that nothing wants any more. */
  release(name: string, now: number): void {
    if (this.#lines.has(name) && !this.#leaving.has(name)) this.#leaving.set(name, now);
  }

  /** Removes what is due, raises or drops the hold, and gives the names whose line changed since the last call. */
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

  /** Lets a held loss happen at once, if `id` is that of the present hold. */
  confirm(id: string): Reason | undefined {
    if (this.#hold === undefined) return { code: "nothing-held", text: "no removal is being held back" };
    if (this.#hold.id !== id) return { code: "other-hold", text: `the hold is ${this.#hold.id}, not ${id}` };
    this.#hold = undefined;
    for (const name of this.#leaving.keys()) this.#remove(name);
    return undefined;
  }

  /** The line of a name, or undefined when it is not published. */
  addressesOf(name: string): readonly string[] | undefined {
    return this.#lines.get(name);
  }

  get size(): number {
    return this.#lines.size;
  }

  /** Names that leave soon, with the time they vanished. */
  get leaving(): ReadonlyMap<string, number> {
    return this.#leaving;
  }

  get hold(): RemovalHold | undefined {
    if (this.#hold === undefined) return undefined;
    const { id, since } = this.#hold;
    return { id, since, until: since + this.#holdMs, names: this.#leaving.size, of: this.#lines.size };
  }

  /** When `settle` should be called again if nothing else happens. */
  nextDeadline(): number | undefined {
    if (this.#hold !== undefined) return this.#hold.since + this.#holdMs;
    // Names enter `leaving` as time goes on, so the first is the oldest.
    const [oldest] = this.#leaving.values();
    return oldest === undefined ? undefined : oldest + this.#rules.vanishMs;
  }

  /** More than half of a map of some size, leaving within one vanish time, looks like a fault of a source, not like a wish. */
  #guard(now: number): void {
    const suspicious = this.#lines.size >= this.#rules.guardNames && this.#leaving.size * 2 > this.#lines.size;
    if (!suspicious) this.#hold = undefined;
    else this.#hold ??= { id: now.toString(36), since: now };
  }

  /** A shorter hold would end before any of its names may leave. */
  get #holdMs(): number {
    return Math.max(this.#rules.holdMs, this.#rules.vanishMs);
  }

  /** Names that joined a hold late are not due when it ends: they wait their time, under a guard of their own. */
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
