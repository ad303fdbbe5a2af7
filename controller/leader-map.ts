import type { Plan, PlannedName } from "#hostmap/plan.ts";
import { PublishedNames } from "#hostmap/published-names.ts";
import type { RemovalRules } from "#hostmap/removal-guard.ts";
import type { TargetAddress } from "#hostmap/types.ts";
import { anyDepthOf, isWildcard, plannedNameOf } from "#hostmap/wildcards.ts";
import { type RenderedShard, Shards } from "#lib/documents/shards.ts";

/** Each name with its addresses. */
type Lines = ReadonlyMap<string, readonly string[]>;

/** The map of one leader's term: the published names, the addresses of their targets, and the shards. */
export class LeaderMap {
  readonly names: PublishedNames;
  readonly #shards = new Shards();
  /** By target, as of the last update. */
  readonly #addresses = new Map<string, readonly string[]>();
  /** Whether a target's address changed since the last publication. */
  #moved = false;

  /**
   * Starts from the published lines, and from the order in which the names were first published. Names that the new
   * leader does not know must be removed as slowly as any other.
   */
  constructor(removal: RemovalRules, published: Lines, orders: ReadonlyMap<string, number>) {
    this.names = new PublishedNames(removal);
    this.names.load(published, orders);
    for (const [name, line] of published) this.#shards.set(name, line, orders.get(name));
  }

  /** Releases the published names that are neither planned nor pending. `now` is in milliseconds, here and below. */
  releaseUnplanned(published: Lines, plan: Plan, now: number): void {
    for (const name of published.keys()) {
      if (plan.isPending(plannedNameOf(name))) continue;
      const each = plan.planned.get(plannedNameOf(name));
      if (each === undefined || (name !== each.name && !each.anyDepth)) this.names.release(name, now);
    }
  }

  /** Applies changes of the plan (undefined: a name is no longer planned) and of the targets' addresses. */
  update(
    changes: ReadonlyMap<string, PlannedName | undefined>,
    { planned }: Plan,
    targets: readonly TargetAddress[],
    now: number,
  ): void {
    const moved = this.#learnAddresses(targets);
    if (moved.size > 0) {
      this.#moved = true;
      for (const each of planned.values()) if (moved.has(each.target)) this.#want(each);
    }
    for (const [name, each] of changes) {
      if (each === undefined) this.names.release(name, now);
      else this.#want(each);
      if (isWildcard(name) && !each?.anyDepth) this.names.release(anyDepthOf(name), now);
    }
  }

  /** Applies the due removals, and renders the changed shards. */
  render(now: number): readonly RenderedShard[] {
    for (const name of this.names.settle(now)) {
      this.#shards.set(name, this.names.addressesOf(name) ?? [], this.names.orderOf(name));
    }
    return this.#shards.render();
  }

  /** The number of names that do not fit into their shard. */
  get overflowing(): number {
    return this.#shards.overflowing.size;
  }

  /** Whether a target moved since the last call. */
  takeMoved(): boolean {
    const moved = this.#moved;
    this.#moved = false;
    return moved;
  }

  #want({ name, target, anyDepth }: PlannedName): void {
    const addresses = this.#addresses.get(target) ?? [];
    this.names.want(name, addresses);
    if (anyDepth) this.names.want(anyDepthOf(name), addresses);
  }

  /** Returns the targets whose addresses changed since the last update. The caller has to update all their names. */
  #learnAddresses(targets: readonly TargetAddress[]): ReadonlySet<string> {
    const moved = new Set<string>();
    for (const { name, clusterIPs } of targets) {
      if (this.#addresses.get(name)?.join() === clusterIPs.join()) continue;
      this.#addresses.set(name, clusterIPs);
      moved.add(name);
    }
    return moved;
  }
}

/** Finds the target of each published name by its addresses. */
export function targetsOfNames(lines: Lines, targets: readonly TargetAddress[]): ReadonlyMap<string, string> {
  const byAddresses = new Map(targets.map(({ name, clusterIPs }) => [clusterIPs.join(), name]));
  const found = new Map<string, string>();
  for (const [name, line] of lines) {
    const target = byAddresses.get(line.join());
    if (target !== undefined) found.set(plannedNameOf(name), target);
  }
  return found;
}
