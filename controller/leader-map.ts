import type { Plan, PlannedName } from "#hostmap/plan.ts";
import { PublishedNames, type Wanted } from "#hostmap/published-names.ts";
import type { RemovalRules } from "#hostmap/removal-guard.ts";
import type { TargetAddress } from "#hostmap/types.ts";
import { anyDepthOf, isWildcard, plannedNameOf } from "#hostmap/wildcards.ts";
import type { LoadedLine } from "#lib/documents/map-writer.ts";
import { type RenderedShard, Shards } from "#lib/documents/shards.ts";

/** The published lines, by name. */
type Lines = ReadonlyMap<string, LoadedLine>;

/** The map of one leader's term: the published names, the addresses of their targets, and the shards. */
export class LeaderMap {
  readonly names: PublishedNames;
  readonly #plan: Plan;
  readonly #shards = new Shards();
  /** By target, as of the last update. */
  readonly #addresses = new Map<string, readonly string[]>();
  /** Whether a target's address changed since the last publication. */
  #moved = false;

  /**
   * Starts from the published lines and the published addresses of the targets. Names that the new leader does not
   * know must be removed as slowly as any other.
   */
  constructor(removal: RemovalRules, plan: Plan, published: Lines, targets: readonly TargetAddress[]) {
    this.#plan = plan;
    this.names = new PublishedNames(removal, (name) => this.#heirOf(name));
    this.names.load(withTargets(published, targets));
    for (const [name, { addresses, order, holder }] of published) this.#shards.set(name, addresses, order, holder);
    plan.setPublished((name) => this.names.lineOf(name), published.keys());
  }

  /** Releases the published names that are neither planned nor undecided. `now` is in milliseconds, here and below. */
  releaseUnplanned(now: number): void {
    for (const name of this.names.names) {
      if (this.#plan.isUndecided(plannedNameOf(name))) continue;
      const each = this.#plan.planned.get(plannedNameOf(name));
      if (each === undefined || (name !== each.name && !each.anyDepth)) this.names.release(name, now);
    }
  }

  /** Applies changes of the plan (undefined: a name is no longer planned) and of the targets' addresses. */
  update(changes: ReadonlyMap<string, PlannedName | undefined>, targets: readonly TargetAddress[], now: number): void {
    const moved = this.#learnAddresses(targets);
    if (moved.size > 0) {
      this.#moved = true;
      for (const each of this.#plan.planned.values()) if (moved.has(each.target)) this.#want(each, now);
    }
    for (const [name, each] of changes) {
      if (each === undefined) this.names.release(name, now);
      else this.#want(each, now);
      if (isWildcard(name) && !each?.anyDepth) this.names.release(anyDepthOf(name), now);
    }
  }

  /** Applies the due removals, and renders the changed shards. */
  render(now: number): readonly RenderedShard[] {
    for (const name of this.names.settle(now)) {
      const { addresses = [], order, holder } = this.names.lineOf(name) ?? {};
      this.#shards.set(name, addresses, order, holder);
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

  #want(planned: PlannedName, now: number): void {
    const wanted = this.#wantedBy(planned);
    this.names.want(planned.name, wanted, now);
    if (planned.anyDepth) this.names.want(anyDepthOf(planned.name), wanted, now);
  }

  #wantedBy({ target, holder }: PlannedName): Wanted {
    return { addresses: this.#addresses.get(target) ?? [], holder, target };
  }

  /** The oldest other claim takes a name whose holder is gone. `**.x` follows `*.x`. */
  #heirOf(name: string): Wanted | undefined {
    const of = plannedNameOf(name);
    const planned = name === of ? this.#plan.planAgain(name) : this.#plan.planned.get(of);
    return planned === undefined || (name !== of && !planned.anyDepth) ? undefined : this.#wantedBy(planned);
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

/** The published lines with their targets, which are found by their addresses. */
function* withTargets(lines: Lines, targets: readonly TargetAddress[]) {
  const byAddresses = new Map(targets.map(({ name, clusterIPs }) => [clusterIPs.join(), name]));
  for (const [name, line] of lines) {
    yield [name, { ...line, target: byAddresses.get(line.addresses.join()) }] as const;
  }
}
