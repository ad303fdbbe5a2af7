import type { ClaimPolicy, EvaluatedClaim } from "./claim-policy.ts";
import {
  conflictOf,
  type IndexedClaim,
  isDisputed,
  LOST,
  partOf,
  sameObject,
  undecidedWarning,
  winnerOf,
} from "./conflict.ts";
import { addTo, removeFrom } from "./multi-map.ts";
import { NamespaceQuotas, UNPUBLISHED } from "./namespace-quotas.ts";
import type { PublishedLine } from "./published-names.ts";
import type { ClaimDecision, ObjectRef, Reason, ReportedClaim } from "./types.ts";
import { isWildcard } from "./wildcards.ts";

/** The target of a name, and the object that won it. */
export interface PlannedName {
  readonly name: string;
  readonly target: string;
  readonly from: ObjectRef;
  /** The namespace that has the name: the published one while it has any claim on the name, else that of `from`. */
  readonly holder: string;
  /** A wildcard that covers any number of labels. */
  readonly anyDepth?: true;
}

/**
 * The desired mapping, updated incrementally: a change of one object costs only its own names.
 *
 *   set(object, claims) ──> evaluate (policy) ──> by name: DNS, its holder, the oldest object ──> takeChanges()
 *                                           └──> by namespace: quota
 */
export class Plan {
  readonly #policy: ClaimPolicy;
  /** Returns the reason why a name is that of a Service in the cluster. Undefined if it is not. */
  readonly #inCluster: (name: string) => Reason | undefined;
  readonly #byObject = new Map<string, readonly IndexedClaim[]>();
  readonly #byName = new Map<string, IndexedClaim[]>();
  readonly #quotas: NamespaceQuotas;
  readonly #planned = new Map<string, PlannedName>();
  /** The published line of a name. Undefined: it is not published. */
  #published: (name: string) => PublishedLine | undefined = () => undefined;
  /** Whether disputed names wait, because the map was lost. */
  #areHoldersLost = false;
  #areServiceNamesDue = false;
  #dirtyNames = new Set<string>();
  #touched = new Set<string>();
  /**
   * The winners of names that several objects claim; null: nobody. A search for a winner takes time for each claim of
   * the name.
   */
  readonly #contested = new Map<string, IndexedClaim | null>();

  constructor(
    policy: ClaimPolicy,
    maxNamesPerNamespace: number,
    inCluster: (name: string) => Reason | undefined = () => undefined,
  ) {
    this.#policy = policy;
    this.#quotas = new NamespaceQuotas(maxNamesPerNamespace, (namespace, name) => this.#orderIn(namespace, name));
    this.#inCluster = inCluster;
  }

  /** Replaces the claims of an object. Pass none for a deleted object. If it throws, the earlier claims stay. */
  set(object: string, claims: readonly Parameters<ClaimPolicy>[0][]): void {
    const evaluated = claims.map((claim) => this.#evaluate(claim, object));
    for (const old of this.#byObject.get(object) ?? []) this.#unindex(old);
    this.#touched.add(object);
    if (evaluated.length === 0) this.#byObject.delete(object);
    else this.#byObject.set(object, evaluated);
    for (const next of evaluated) this.#index(next);
  }

  /** Evaluates the claims of a namespace again after its permissions changed. Iterates over all objects. */
  reevaluate(namespace: string): void {
    this.#setAgain(({ claim }) => claim.from.namespace === namespace);
  }

  /** Evaluates again, with the next changes, the claims that were refused because their name is that of a Service. */
  reevaluateServiceNames(): void {
    this.#areServiceNamesDue = true;
  }

  /**
   * Sets what is published, before the first `takeChanges`. Over quota, a namespace keeps its published names: neither
   * a lower quota, an older object with new names, nor a Service takes one away.
   */
  setPublished(lineOf: (name: string) => PublishedLine | undefined): void {
    this.#published = lineOf;
    this.reevaluateServiceNames();
  }

  /**
   * Whether nobody knows any more which namespace has a name. Then a name is not planned if namespaces claim it for
   * different targets, unless DNS decides.
   */
  loseHolders(areLost: boolean): void {
    if (areLost === this.#areHoldersLost) return;
    this.#areHoldersLost = areLost;
    for (const name of this.#contested.keys()) this.#dirtyNames.add(name);
  }

  /**
   * Returns the names whose plan changed since the last call, with the new plan. Undefined: the name is no longer
   * wanted.
   */
  takeChanges(): ReadonlyMap<string, PlannedName | undefined> {
    if (this.#areServiceNamesDue) this.#setAgain(({ inCluster }) => inCluster);
    this.#areServiceNamesDue = false;
    for (const name of this.#quotas.apply()) this.#dirtyNames.add(name);
    const changes = new Map<string, PlannedName | undefined>();
    for (const name of this.#dirtyNames) {
      const before = this.#planned.get(name);
      const next = this.#planName(name);
      this.#touch(name);
      if (next === undefined && this.isUndecided(name)) {
        // A move to another namespace that did not happen yet is over.
        const { holder = before?.holder } = this.#published(name) ?? {};
        if (holder !== before?.holder) this.#setPlan(name, undefined);
        continue;
      }
      const isToRemove = next === undefined && this.#published(name) !== undefined;
      if (samePlan(before, next) && !isToRemove) continue;
      this.#setPlan(name, next);
      changes.set(name, next);
    }
    this.#dirtyNames = new Set();
    return changes;
  }

  /** Plans a name at once, because its holder is gone. `takeChanges` does not return this change. */
  planAgain(name: string): PlannedName | undefined {
    const next = this.#planName(name);
    this.#touch(name);
    this.#setPlan(name, next);
    return next;
  }

  /** Returns the objects whose decisions may have changed since the last call: they or one of their names changed. */
  takeTouched(): ReadonlySet<string> {
    const touched = this.#touched;
    this.#touched = new Set();
    return touched;
  }

  /** All planned names, as of the last `takeChanges()`. */
  get planned(): ReadonlyMap<string, PlannedName> {
    return this.#planned;
  }

  /**
   * Whether a claim of the name is not decided yet. Then its publication stays. Claims of other namespaces than the
   * holder do not count. While the holders are not known, nobody loses a name that several objects claim.
   */
  isUndecided(name: string): boolean {
    if (this.#areHoldersLost && this.#contested.get(name) === null) return true;
    return (this.#byName.get(name) ?? []).some((indexed) => this.#stays(indexed));
  }

  /** The published line of a name. Undefined: it is not published. */
  lineOf(name: string): PublishedLine | undefined {
    return this.#published(name);
  }

  /** The target that a name has for a namespace: the planned one, else the published one, until the name moves. */
  heldTarget(name: string, namespace: string): string | undefined {
    const planned = this.#planned.get(name);
    if (planned?.holder === namespace) return planned.target;
    const line = this.#published(name);
    return (line?.holder ?? namespace) === namespace ? line?.target : undefined;
  }

  /** Whether the name is within the quota, as of the last `takeChanges()`. Undecided claims count, too. */
  isWithinQuota(namespace: string, name: string): boolean {
    return this.#quotas.isWithin(namespace, name);
  }

  /**
   * The targets that have names, or may get some, each with one of these names. That of a claim that loses its name
   * has to be ready when the winner goes. It iterates over all claims.
   */
  get targets(): ReadonlyMap<string, string> {
    const found = new Map<string, string>();
    for (const claims of this.#byObject.values())
      for (const indexed of claims)
        for (const target of this.#targetsOf(indexed)) if (target !== undefined) found.set(target, indexed.name);
    return found;
  }

  /** Whether a name has the target or may get it. */
  hasTarget(name: string, target: string): boolean {
    return (this.#byName.get(name) ?? []).some((indexed) => this.#targetsOf(indexed).includes(target));
  }

  /** The targets that a claim has or may get. Most claims have one. */
  #targetsOf(indexed: IndexedClaim): readonly (string | undefined)[] {
    const { part, claim, name } = indexed;
    if (part === undefined) return [];
    const { target, maybe, aim } = claim;
    if (typeof target === "string") return [target, aim];
    return [maybe, aim, this.#stays(indexed) ? this.heldTarget(name, claim.from.namespace) : undefined];
  }

  /** Yields every claim with its decision. It iterates over all claims, so use it only for the status. */
  *report(): Generator<ReportedClaim> {
    for (const object of this.#byObject.keys()) yield* this.decisionsOf(object);
  }

  /** Yields the claims of one object with their decisions. */
  *decisionsOf(object: string): Generator<ReportedClaim> {
    for (const indexed of this.#byObject.get(object) ?? []) {
      const { from, created: since } = indexed.claim;
      const decision = this.#decisionOn(indexed);
      const warning = decision.mapped ? this.#warningOf(indexed) : undefined;
      yield { name: indexed.name, from, since, decision, ...(warning && { warning }) };
    }
  }

  #warningOf({ name, part, claim }: IndexedClaim): Reason | undefined {
    const { target, warning } = claim;
    const undecided = part === "undecided" && typeof target !== "string" ? undecidedWarning(target, claim) : undefined;
    return this.#inCluster(name) ?? undecided ?? warning;
  }

  /**
   * Whether a claim that is not decided keeps its name as it is. Claims of other namespaces than the holder do not
   * count. One that only lacks evidence counts while the name has its target: it takes over no name, and takes none
   * back.
   */
  #stays({ name, part, claim }: IndexedClaim): boolean {
    if (part !== "undecided") return false;
    const holder = this.#published(name)?.holder ?? this.#planned.get(name)?.holder;
    if (holder !== undefined && holder !== claim.from.namespace) return false;
    return claim.lacking === undefined || this.heldTarget(name, claim.from.namespace) === claim.maybe;
  }

  /** Evaluates the objects again that have such a claim. */
  #setAgain(isMeant: (indexed: IndexedClaim) => boolean): void {
    for (const [object, evaluated] of this.#byObject) {
      if (!evaluated.some(isMeant)) continue;
      this.set(
        object,
        evaluated.map(({ claim }) => claim),
      );
    }
  }

  /** Refuses a name that is that of a Service, unless it was mapped before: a later Service does not take it away. */
  #evaluate(claim: Parameters<ClaimPolicy>[0], object: string): IndexedClaim {
    const evaluated = this.#policy(claim);
    const indexed = { ...evaluated, object, part: partOf(evaluated), inCluster: false };
    if (indexed.part !== "wants") return indexed;
    const refused = this.#isMapped(evaluated) ? undefined : this.#inCluster(evaluated.name);
    return refused === undefined ? indexed : { ...indexed, refused, part: undefined, inCluster: true };
  }

  /** Whether the namespace has the name now, or had it under an earlier leader. */
  #isMapped({ name, claim }: EvaluatedClaim): boolean {
    const { namespace } = claim.from;
    const has = this.#planned.get(name) ?? this.#published(name);
    return has !== undefined && (has.holder ?? namespace) === namespace;
  }

  #index(indexed: IndexedClaim): void {
    if (indexed.part === undefined) return;
    addTo(this.#byName, indexed.name, indexed);
    this.#dirtyNames.add(indexed.name);
    if (indexed.part !== "mentions") this.#quotas.add(indexed);
  }

  #unindex(indexed: IndexedClaim): void {
    if (indexed.part === undefined) return;
    removeFrom(this.#byName, indexed.name, indexed);
    this.#dirtyNames.add(indexed.name);
    if (indexed.part !== "mentions") this.#quotas.remove(indexed);
  }

  /** When a name of this namespace was published. A name that another namespace has now counts as unpublished. */
  #orderIn(namespace: string, name: string): number {
    const line = this.#published(name);
    const holder = line?.holder ?? this.#planned.get(name)?.from.namespace ?? namespace;
    return (holder === namespace ? line?.order : undefined) ?? UNPUBLISHED;
  }

  #planName(name: string): PlannedName | undefined {
    const claims = this.#byName.get(name) ?? [];
    const winner = this.#winner(name);
    if (claims.length > 1) this.#contested.set(name, winner ?? null);
    else this.#contested.delete(name);
    if (winner === undefined || typeof winner.claim.target !== "string") return undefined;
    const { target, from } = winner.claim;
    const line = this.#published(name);
    const stays =
      line?.holder !== undefined &&
      (line.target === undefined || line.target === target) &&
      claims.some(({ claim }) => claim.from.namespace === line.holder);
    const holder = stays && line?.holder !== undefined ? line.holder : from.namespace;
    const planned = { name, target, from, holder };
    return this.#isAnyDepth(name, target) ? { ...planned, anyDepth: true } : planned;
  }

  #setPlan(name: string, next: PlannedName | undefined): void {
    if (next === undefined) this.#planned.delete(name);
    else this.#planned.set(name, next);
  }

  #touch(name: string): void {
    for (const { object } of this.#byName.get(name) ?? []) this.#touched.add(object);
  }

  #winner(name: string): IndexedClaim | undefined {
    const claims = (this.#byName.get(name) ?? []).filter((indexed) => this.#isWithinQuota(indexed));
    const winner = winnerOf(claims, this.#published(name));
    const waits = this.#areHoldersLost && isDisputed(winner, claims, this.#published(name));
    return waits ? undefined : winner;
  }

  /**
   * Whether any object of the target means any number of labels. If so, its target serves all of them, whichever
   * object is the oldest.
   */
  #isAnyDepth(name: string, target: string): boolean {
    const claims = isWildcard(name) ? (this.#byName.get(name) ?? []) : [];
    return claims.some(
      (indexed) => indexed.claim.anyDepth && indexed.claim.target === target && this.#isWithinQuota(indexed),
    );
  }

  #isWithinQuota({ name, claim }: IndexedClaim): boolean {
    return this.#quotas.isWithin(claim.from.namespace, name);
  }

  #decisionOn(indexed: IndexedClaim): ClaimDecision {
    const { name, part, refused, claim } = indexed;
    const { target, from } = claim;
    if (part === "undecided" && !this.#isWithinQuota(indexed))
      return { mapped: false, reason: this.#quotas.reasonFor(from.namespace) };
    // If another object has evidence, the name is not kept: it has that object's target.
    const isKept = claim.lacking === undefined || this.#winnerOf(name)?.part !== "wants";
    const held = isKept && this.#stays(indexed) ? this.heldTarget(name, from.namespace) : undefined;
    if (held !== undefined) return { mapped: true, target: held };
    const reason = refused ?? this.#conflictOrQuota(indexed);
    if (reason !== undefined) return { mapped: false, reason };
    return typeof target === "string" ? { mapped: true, target } : { mapped: false, reason: target };
  }

  #winnerOf(name: string): IndexedClaim | undefined {
    const known = this.#dirtyNames.has(name) ? undefined : this.#contested.get(name);
    return known === undefined ? this.#winner(name) : (known ?? undefined);
  }

  #conflictOrQuota(indexed: IndexedClaim): Reason | undefined {
    const { name, claim } = indexed;
    if (!this.#isWithinQuota(indexed)) return this.#quotas.reasonFor(claim.from.namespace);
    const winner = this.#winnerOf(name);
    if (winner?.claim.target === claim.target) return undefined;
    if (winner === undefined && this.#areHoldersLost && indexed.part === "wants") return LOST;
    return conflictOf(indexed, winner, { claims: this.#byName.get(name) ?? [], line: this.#published(name) });
  }
}

function samePlan(a: PlannedName | undefined, b: PlannedName | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  const isSame = a.target === b.target && a.anyDepth === b.anyDepth && a.holder === b.holder;
  return isSame && sameObject(a.from, b.from);
}
