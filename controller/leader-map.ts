import { compareNames } from "#hostmap/hostnames.ts";
import type { Plan, PlannedName } from "#hostmap/plan.ts";
import { PublishedNames, type Wanted } from "#hostmap/published-names.ts";
import type { HostLine, TargetAddress } from "#hostmap/types.ts";
import { anyDepthOf, isWildcard, plannedNameOf } from "#hostmap/wildcards.ts";
import type { Config } from "#lib/config/schema.ts";
import { type RenderedMap, renderMap } from "#lib/documents/map-format.ts";

type MapRules = Pick<Config["map"], "vanishSeconds" | "guardHoldSeconds">;
/** The published lines, by name. */
type Lines = ReadonlyMap<string, HostLine>;

/** The map of one leader's term: the published names, and the addresses of their targets. Times are milliseconds. */
export class LeaderMap {
  readonly names: PublishedNames;
  readonly #plan: Plan;
  /** The map as last rendered. */
  #rendered: RenderedMap | undefined;
  /** Whether a line has changed since. */
  #hasChanged = true;
  /** Whether every source has been read. */
  #isComplete = false;
  /** By target, as of the last update. */
  readonly #addresses = new Map<string, readonly string[]>();

  /**
   * Starts from the published lines and the published addresses of the targets. Names that the new leader does not
   * know must be removed as slowly as any other.
   */
  constructor(rules: MapRules, plan: Plan, published: Lines, targets: readonly TargetAddress[]) {
    const { vanishSeconds, guardHoldSeconds } = rules;
    const removal = { vanishMs: vanishSeconds * 1000, holdMs: guardHoldSeconds * 1000 };
    this.#plan = plan;
    this.names = new PublishedNames(removal, (name) => this.#heirOf(name));
    this.names.load(withTargets(published, targets));
    plan.setPublished((name) => this.names.lineOf(name));
  }

  /**
   * Applies changes of the plan (undefined: a name is no longer planned) and of the targets' addresses. `isComplete`:
   * every source has been read. Until then, no published name leaves, moves or gets another holder.
   */
  update(
    changes: ReadonlyMap<string, PlannedName | undefined>,
    targets: readonly TargetAddress[],
    now: number,
    isComplete: boolean,
  ): void {
    const isFirst = isComplete && !this.#isComplete;
    this.#isComplete = isComplete;
    for (const each of this.#plannedAgain(this.#learnAddresses(targets), isFirst)) this.#want(each, now);
    // Names that are published together come in name order.
    for (const [name, each] of [...changes].sort(([a], [b]) => compareNames(a, b))) {
      if (each === undefined) this.#release(name, now);
      else this.#want(each, now);
      if (isWildcard(name) && !each?.anyDepth) this.#release(anyDepthOf(name), now);
    }
    if (isFirst) this.#releaseUnplanned(now);
    this.#keepUndecided();
  }

  /** Applies the due removals. Returns the names whose line has changed. */
  settle(now: number): ReadonlySet<string> {
    const changed = this.names.settle(now);
    if (changed.size > 0) this.#hasChanged = true;
    return changed;
  }

  /** Renders the map, as of the last `settle`. */
  async render(): Promise<RenderedMap> {
    if (this.#rendered !== undefined && !this.#hasChanged) return this.#rendered;
    this.#rendered = await renderMap([...this.names.lines.values()], this.#rendered?.blocks);
    this.#hasChanged = false;
    return this.#rendered;
  }

  /** The targets that the published lines lead to. */
  targetsInUse(): ReadonlySet<string> {
    const targets = new Set<string>();
    for (const { target } of this.names.lines.values()) if (target !== undefined) targets.add(target);
    return targets;
  }

  /** Releases the published names that are neither planned nor undecided. */
  #releaseUnplanned(now: number): void {
    for (const name of this.names.lines.keys()) {
      if (this.#plan.isUndecided(plannedNameOf(name))) continue;
      const each = this.#plan.planned.get(plannedNameOf(name));
      if (each === undefined || (name !== each.name && !each.anyDepth)) this.names.release(name, now);
    }
  }

  #release(name: string, now: number): void {
    if (this.#isComplete) this.names.release(name, now);
  }

  /** A name stops leaving if its holder is back with a claim that is not decided yet. */
  #keepUndecided(): void {
    for (const name of this.names.leaving.keys()) {
      const { holder, target } = this.names.lineOf(name) ?? {};
      if (holder !== undefined && this.#plan.isUndecided(plannedNameOf(name)))
        this.names.want(name, { addresses: [], holder, target });
    }
  }

  #want(planned: PlannedName, now: number): void {
    const wanted = this.#wantedBy(planned);
    const line = this.names.lineOf(planned.name);
    const isSame = line === undefined || (line.target === wanted.target && line.holder === wanted.holder);
    if (!this.#isComplete && !isSame) return;
    this.names.want(planned.name, wanted, now);
    if (planned.anyDepth) this.names.want(anyDepthOf(planned.name), wanted, now);
  }

  #wantedBy({ target, holder }: PlannedName): Wanted {
    return { addresses: this.#addresses.get(target) ?? [], holder, target };
  }

  /** The oldest other claim takes a name whose holder is gone. `**.x` follows `*.x`, whichever of them ends first. */
  #heirOf(name: string): Wanted | undefined {
    const of = plannedNameOf(name);
    const planned = name === of ? this.#plan.planAgain(name) : this.#plan.planned.get(of);
    if (planned === undefined || (name !== of && !planned.anyDepth)) return undefined;
    const wanted = this.#wantedBy(planned);
    if (name === of && planned.anyDepth && wanted.addresses.length > 0) this.names.want(anyDepthOf(name), wanted);
    return wanted;
  }

  /** The planned names of these targets, or all of them. */
  #plannedAgain(moved: ReadonlySet<string>, isAll: boolean): Iterable<PlannedName> {
    const all = this.#plan.planned.values();
    if (isAll) return all;
    return moved.size === 0 ? [] : all.filter(({ target }) => moved.has(target));
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
  for (const line of lines.values())
    yield { ...line, holder: line.holder, target: byAddresses.get(line.addresses.join()) };
}
