import { RemovalGuard, type RemovalHold, type RemovalRules } from "./removal-guard.ts";
import type { Reason } from "./types.ts";

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
  /**
   * When each name was first published, as a sequence number, by name. Missing if that was before orders were stored.
   */
  readonly #orders = new Map<string, number>();
  /** The order of the next published names. Names that are published together share it. */
  #nextOrder = 1;
  readonly #leaving = new Map<string, number>();
  readonly #guard: RemovalGuard;
  #changed = new Set<string>();

  constructor(rules: RemovalRules) {
    this.#rules = rules;
    this.#guard = new RemovalGuard(rules);
  }

  /** Loads the names that an earlier leader published, before the first reconcile. */
  load(lines: Iterable<readonly [string, readonly string[]]>, orders: ReadonlyMap<string, number> = new Map()): void {
    for (const [name, addresses] of lines) this.#lines.set(name, addresses);
    for (const [name, order] of orders) {
      if (this.#lines.has(name)) this.#orders.set(name, order);
      this.#nextOrder = Math.max(this.#nextOrder, order + 1);
    }
  }

  /** Publishes a name with these addresses. No address means "unknown": an existing line stays unchanged. */
  want(name: string, addresses: readonly string[]): void {
    this.#leaving.delete(name);
    if (addresses.length === 0) return;
    const line = this.#lines.get(name);
    if (line !== undefined && sameAddresses(line, addresses)) return;
    if (line === undefined) this.#orders.set(name, this.#nextOrder);
    this.#lines.set(name, addresses);
    this.#changed.add(name);
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
    if (this.#guard.expire(now)) this.#removeDue(now);
    if (this.#guard.mayRemove(this.#leaving.size, this.#lines.size, now)) this.#removeDue(now);
    const changed = this.#changed;
    this.#changed = new Set();
    if (changed.size > 0) this.#nextOrder += 1;
    return changed;
  }

  /** Executes a held removal at once, if `id` is that of the current hold. */
  confirm(id: string): Reason | undefined {
    const refusal = this.#guard.confirm(id);
    if (refusal !== undefined) return refusal;
    for (const name of this.#leaving.keys()) this.#remove(name);
    return undefined;
  }

  /** The published addresses of a name, or undefined if it is not published. */
  addressesOf(name: string): readonly string[] | undefined {
    return this.#lines.get(name);
  }

  /**
   * Returns when a published name was first published, as a sequence number. 0: before orders were stored. Undefined:
   * it is not published.
   */
  orderOf(name: string): number | undefined {
    return this.#lines.has(name) ? (this.#orders.get(name) ?? 0) : undefined;
  }

  get size(): number {
    return this.#lines.size;
  }

  /** Names that are waiting for removal, with the time when their last claim was removed. */
  get leaving(): ReadonlyMap<string, number> {
    return this.#leaving;
  }

  get hold(): RemovalHold | undefined {
    return this.#guard.describe(this.#leaving.size, this.#lines.size);
  }

  /** Returns when `settle` must be called again if nothing else changes. */
  nextDeadline(): number | undefined {
    if (this.#guard.until !== undefined) return this.#guard.until;
    // Names are added to `leaving` in time order, so the first is the oldest.
    const [oldest] = this.#leaving.values();
    return oldest === undefined ? undefined : oldest + this.#rules.vanishMs;
  }

  /**
   * Removes names that are due. Names that vanished during a hold may not be due when it ends. They wait for their
   * own time, and the guard checks them again.
   */
  #removeDue(now: number): void {
    for (const [name, since] of this.#leaving) if (now - since >= this.#rules.vanishMs) this.#remove(name);
  }

  #remove(name: string): void {
    this.#leaving.delete(name);
    this.#lines.delete(name);
    this.#orders.delete(name);
    this.#changed.add(name);
  }
}

function sameAddresses(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((address, index) => address === b[index]);
}
