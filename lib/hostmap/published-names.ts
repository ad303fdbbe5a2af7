import type { HostLine } from "./types.ts";

/** Rules for removing names from the map. Times are milliseconds. `now` is any monotonic clock, here and below. */
export interface RemovalRules {
  /** How long a name stays after its last claim is gone. */
  readonly vanishMs: number;
  /** How long a suspicious removal is held. Never shorter than `vanishMs`: its names would not be due yet. */
  readonly holdMs: number;
}

/** The smallest map, in names, whose removals may be held: in a smaller one, half of the names are a few objects. */
const GUARD_NAMES = 10;

/** A removal that is held until it times out. */
export interface RemovalHold {
  readonly since: number;
  readonly until: number;
  /** Names waiting for removal, and the size of the map. */
  readonly names: number;
  readonly of: number;
}

/** A name of the map. */
export interface PublishedLine extends HostLine {
  /** The position of the name among all that this replica has seen, in the order of their first publication. */
  readonly order: number;
  /** The namespace that has the name. Undefined: unknown. */
  readonly holder: string | undefined;
  /** The target that the addresses are of. Undefined: unknown. */
  readonly target: string | undefined;
}

/** What a claim gives to a name. */
export type Wanted = Pick<PublishedLine, "addresses"> & Partial<Pick<PublishedLine, "holder" | "target">>;

/**
 * The published names, and those that are about to be removed:
 *
 *   wanted ──> line ──(vanished)──> leaving ──(vanishMs)──> gone
 *                └──────(back)────────┘  └─(more than half at once)─> held ──(holdMs)──> gone
 *
 * Additions and changed addresses are always published at once: a hold must not delay a new certificate. A removal is
 * held if more than half of a large enough map would leave within one `vanishMs`: probably a source has failed. The
 * hold ends when it times out, or when enough names are back.
 *
 * A name has a holder, the namespace whose claim was published. It keeps the name for `vanishMs` after its last claim,
 * also if a claim of another namespace on the same target keeps the line.
 */
export class PublishedNames {
  readonly #rules: RemovalRules;
  readonly #heirOf: (name: string) => Wanted | undefined;
  readonly #lines = new Map<string, PublishedLine>();
  #nextOrder = 0;
  /** The name whose heir is searched. It has no line meanwhile. */
  #passing: string | undefined;
  readonly #leaving = new Map<string, number>();
  /** Names that other namespaces keep, with the time when the last claim of their holder was removed. */
  readonly #abandoned = new Map<string, number>();
  #heldSince: number | undefined;
  #changed = new Set<string>();

  /** `heirOf` returns what a name gets that no longer has a holder. Undefined: nobody claims it, and it is removed. */
  constructor(rules: RemovalRules, heirOf: (name: string) => Wanted | undefined = () => undefined) {
    this.#rules = rules;
    this.#heirOf = heirOf;
  }

  /** Loads the names that an earlier leader published, in their order, before the first reconcile. */
  load(lines: Iterable<Omit<PublishedLine, "order">>): void {
    for (const line of lines) this.#lines.set(line.name, { ...line, order: this.#nextOrder++ });
  }

  /**
   * Publishes a name. No address means "unknown": an existing line stays unchanged. With another target, the name gets
   * another holder at once, because only DNS moves a name. With the same target, the holder has its time to come back.
   */
  want(name: string, { addresses, holder, target }: Wanted, now = 0): void {
    this.#leaving.delete(name);
    const line = this.#lines.get(name);
    const stays = line?.holder !== undefined && (line.target === undefined || line.target === target);
    if (!stays || holder === line.holder) this.#abandoned.delete(name);
    else if (!this.#abandoned.has(name)) this.#abandoned.set(name, now);
    if (addresses.length === 0) return;
    const order = line?.order ?? this.#nextOrder++;
    const next = { name, addresses, order, holder: stays ? line.holder : holder, target };
    this.#lines.set(name, next);
    if (line === undefined || line.holder !== next.holder || !sameAddresses(line.addresses, addresses)) {
      this.#changed.add(name);
    }
  }

  /** Starts the removal of a name that no object claims any more. */
  release(name: string, now: number): void {
    if (this.#lines.has(name) && !this.#leaving.has(name)) this.#leaving.set(name, now);
  }

  /**
   * Removes names that are due, and starts or ends the hold. Returns the names whose line changed since the last
   * call.
   */
  settle(now: number): ReadonlySet<string> {
    if (this.hold !== undefined && now >= this.hold.until) {
      this.#heldSince = undefined;
      this.#removeDue(now);
    }
    const isSuspicious = this.#lines.size >= GUARD_NAMES && this.#leaving.size * 2 > this.#lines.size;
    this.#heldSince = isSuspicious ? (this.#heldSince ?? now) : undefined;
    if (!isSuspicious) this.#removeDue(now);
    const changed = this.#changed;
    this.#changed = new Set();
    return changed;
  }

  /** The line of a name, or undefined if it is not published. */
  lineOf(name: string): PublishedLine | undefined {
    return name === this.#passing ? undefined : this.#lines.get(name);
  }

  get size(): number {
    return this.#lines.size;
  }

  /** The published names with their lines, in the order of their first publication. */
  get lines(): ReadonlyMap<string, PublishedLine> {
    return this.#lines;
  }

  /** Names that are waiting for removal, with the time when their last claim was removed. */
  get leaving(): ReadonlyMap<string, number> {
    return this.#leaving;
  }

  get hold(): RemovalHold | undefined {
    const since = this.#heldSince;
    if (since === undefined) return undefined;
    const until = since + Math.max(this.#rules.holdMs, this.#rules.vanishMs);
    return { since, until, names: this.#leaving.size, of: this.#lines.size };
  }

  /** Returns when `settle` must be called again if nothing else changes. */
  nextDeadline(): number | undefined {
    if (this.hold !== undefined) return this.hold.until;
    // Names are added in time order, so the first of each map is the oldest.
    const times = [this.#leaving, this.#abandoned].flatMap((names) => names.values().take(1).toArray());
    return times.length === 0 ? undefined : Math.min(...times) + this.#rules.vanishMs;
  }

  /**
   * Removes names that are due, or gives them to their heirs. Names that vanished during a hold may not be due when it
   * ends. They wait for their own time, and may be held again.
   */
  #removeDue(now: number): void {
    const isDue = ([, since]: readonly [string, number]) => now - since >= this.#rules.vanishMs;
    for (const each of this.#leaving) {
      if (!isDue(each)) continue;
      this.#leaving.delete(each[0]);
      this.#pass(each[0]);
    }
    for (const each of this.#abandoned) if (isDue(each)) this.#pass(each[0]);
  }

  /**
   * Ends the time of a holder. A name that is leaving stays until its own time ends. An heir whose target has no
   * address gets nothing: nobody serves the name at the old address.
   */
  #pass(name: string): void {
    this.#abandoned.delete(name);
    const line = this.#lines.get(name);
    if (line === undefined) return;
    this.#changed.add(name);
    // The heir is found as if nobody had the name.
    this.#passing = name;
    const { addresses = [], holder, target } = this.#heirOf(name) ?? {};
    this.#passing = undefined;
    const known = addresses.length === 0 && target !== undefined && target === line.target ? line.addresses : addresses;
    if (known.length > 0) {
      this.#leaving.delete(name);
      this.#lines.set(name, { ...line, addresses: known, holder, target });
    } else if (this.#leaving.has(name)) this.#lines.set(name, { ...line, holder: undefined, target: undefined });
    else this.#lines.delete(name);
  }
}

function sameAddresses(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((address, index) => address === b[index]);
}
