import { beyondQuota, type ClaimPolicy, type EvaluatedClaim } from "./claim-policy.ts";
import { compareNames } from "./hostnames.ts";
import { KeptNames, keptWarning } from "./kept-names.ts";
import { addTo, getOrAdd, removeFrom } from "./multi-map.ts";
import { candidateTarget, isRanked, isUndecided, PendingNames, pendingTarget } from "./pending-names.ts";
import type { ClaimDecision, ObjectRef, Reason } from "./types.ts";
import { isWildcard } from "./wildcards.ts";

/** The target of a name, and the object that won it. */
export interface PlannedName {
  readonly name: string;
  readonly wildcard: boolean;
  readonly target: string;
  readonly from: ObjectRef;
  /** A wildcard that covers any number of labels. */
  readonly anyDepth?: true;
}

/** A claim for the status: the name (as written, if invalid) and the decision. */
export interface ReportedClaim {
  readonly name: string;
  readonly wildcard: boolean;
  readonly from: ObjectRef;
  /** creationTimestamp of the object. */
  readonly since: string;
  readonly decision: ClaimDecision;
  /** A problem of a mapped name: a Service with that name was created later, or its target lacks something. */
  readonly warning?: Reason | undefined;
}

interface IndexedClaim extends EvaluatedClaim {
  readonly object: string;
  /** Whether it is refused because its name is that of a Service in the cluster. */
  readonly inCluster: boolean;
}

/** Higher than every order. It is finite, because the difference of two infinities is not a number. */
const UNPUBLISHED = Number.MAX_SAFE_INTEGER;

/**
 * The desired mapping, updated incrementally: a change of one object costs only its own names.
 *
 *   set(object, claims) ──> evaluate (policy) ──> by name: DNS, then the oldest object ──> takeChanges()
 *                                           └──> by namespace: quota
 */
export class Plan {
  readonly #policy: ClaimPolicy;
  readonly #quota: number;
  /** Returns the reason why a name is that of a Service in the cluster. Undefined if it is not. */
  readonly #inCluster: (name: string) => Reason | undefined;
  /** Objects with names that were refused for that reason. */
  readonly #withServiceNames = new Set<string>();
  readonly #byObject = new Map<string, readonly IndexedClaim[]>();
  readonly #byName = new Map<string, IndexedClaim[]>();
  /** Namespace -> name -> claims of that namespace; only claims that the policy allows, decided or not. */
  readonly #byNamespace = new Map<string, Map<string, IndexedClaim[]>>();
  /** Namespaces over their quota, with the names that are within the quota. */
  readonly #withinQuota = new Map<string, ReadonlySet<string>>();
  readonly #planned = new Map<string, PlannedName>();
  readonly #pending = new PendingNames();
  readonly #kept = new KeptNames();
  /** By target: the planned names and the names that may get the target, each with the number of its uses. */
  readonly #uses = new Map<string, Map<string, number>>();
  #orderOf: (name: string) => number | undefined = () => undefined;
  #dirtyNames = new Set<string>();
  #dirtyNamespaces = new Set<string>();
  #touched = new Set<string>();
  /** The winners of names that several objects claim. A search for a winner takes time for each claim of the name. */
  readonly #contested = new Map<string, IndexedClaim>();

  constructor(
    policy: ClaimPolicy,
    maxNamesPerNamespace: number,
    inCluster: (name: string) => Reason | undefined = () => undefined,
  ) {
    this.#policy = policy;
    this.#quota = maxNamesPerNamespace;
    this.#inCluster = inCluster;
  }

  /** Replaces the claims of an object. Pass none for a deleted object. If it throws, the earlier claims stay. */
  set(object: string, claims: readonly Parameters<ClaimPolicy>[0][]): void {
    const evaluated = claims.map((claim) => this.#evaluate(claim, object));
    for (const old of this.#byObject.get(object) ?? []) {
      this.#unindex(old);
      this.#followPending(old, -1);
    }
    this.#touched.add(object);
    this.#withServiceNames.delete(object);
    if (evaluated.some(({ inCluster }) => inCluster)) this.#withServiceNames.add(object);
    if (evaluated.length === 0) this.#byObject.delete(object);
    else this.#byObject.set(object, evaluated);
    for (const next of evaluated) {
      this.#index(next);
      this.#followPending(next, 1);
    }
  }

  /** Evaluates the claims of a namespace again after its permissions changed. Iterates over all objects. */
  reevaluate(namespace: string): void {
    for (const [object, evaluated] of this.#byObject) {
      if (evaluated[0]?.claim.from.namespace === namespace) this.#setAgain(object);
    }
  }

  /** Evaluates again the claims that were refused because their name is that of a Service in the cluster. */
  reevaluateServiceNames(): void {
    for (const object of [...this.#withServiceNames]) this.#setAgain(object);
  }

  /**
   * Sets when names were first published (a sequence number; undefined: not published). Over quota, a namespace keeps
   * its published names: neither a lower quota, an older object with new names, nor a Service takes one away.
   */
  setOrder(orderOf: (name: string) => number | undefined): void {
    this.#orderOf = orderOf;
    for (const [namespace, { size }] of this.#byNamespace) if (size > this.#quota) this.#dirtyNamespaces.add(namespace);
    this.reevaluateServiceNames();
  }

  /** Passes the published names and their targets to a new leader's plan, for claims that are kept. */
  resume(published: ReadonlyMap<string, string>): void {
    this.#kept.resume(published);
  }

  /**
   * Returns the names whose plan changed since the last call, with the new plan. Undefined: the name is no longer
   * wanted. Names that were pending until now are included, because their publication may have to be removed.
   */
  takeChanges(): ReadonlyMap<string, PlannedName | undefined> {
    for (const namespace of this.#dirtyNamespaces) this.#applyQuota(namespace);
    const changes = new Map<string, PlannedName | undefined>();
    const decided = this.#pending.takeDecided();
    for (const name of decided) this.#dirtyNames.add(name);
    for (const name of this.#dirtyNames) {
      for (const { object } of this.#byName.get(name) ?? []) this.#touched.add(object);
      const next = this.#planName(name);
      const before = this.#planned.get(name);
      // A mapped name stays until its pending claim is decided.
      if (next === undefined && this.#pending.has(name)) continue;
      if (samePlan(before, next) && !decided.has(name)) continue;
      this.#count(before?.target, -1, name);
      this.#count(next?.target, 1, name);
      if (next === undefined) this.#planned.delete(name);
      else this.#planned.set(name, next);
      changes.set(name, next);
    }
    this.#dirtyNamespaces = new Set();
    this.#dirtyNames = new Set();
    this.#kept.settle((name) => this.#pending.has(name));
    return changes;
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

  /** Whether a claim of the name is not decided yet. */
  isPending(name: string): boolean {
    return this.#pending.has(name);
  }

  /** Whether the name is within the quota, as of the last `takeChanges()`. Undecided claims count, too. */
  isWithinQuota(namespace: string, name: string): boolean {
    return this.#withinQuota.get(namespace)?.has(name) ?? true;
  }

  /** The targets that have names, as of the last `takeChanges()`, or that may get some. */
  get targets(): ReadonlySet<string> {
    return new Set(this.#uses.keys());
  }

  /** Returns a name that has the target or may get it. It returns `last` as long as that is such a name. */
  exampleOf(target: string, last?: string): string | undefined {
    const names = this.#uses.get(target);
    return last !== undefined && names?.has(last) ? last : names?.keys().next().value;
  }

  /** All objects with claims, each once. The iterator includes objects that are added meanwhile. */
  get objects(): Iterable<string> {
    return this.#byObject.keys();
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
      yield { name: indexed.name, wildcard: indexed.wildcard, from, since, decision, ...(warning && { warning }) };
    }
  }

  #warningOf({ name, claim: { kept, warning } }: IndexedClaim): Reason | undefined {
    return this.#inCluster(name) ?? (kept && keptWarning(kept)) ?? warning;
  }

  #counts({ name, claim }: EvaluatedClaim): boolean {
    return this.#kept.counts(name, claim, this.#planned.get(name));
  }

  #setAgain(object: string): void {
    const claims = (this.#byObject.get(object) ?? []).map(({ claim }) => claim);
    this.set(object, claims);
  }

  /** Refuses a name that is that of a Service, unless it was mapped before: a later Service does not take it away. */
  #evaluate(claim: Parameters<ClaimPolicy>[0], object: string): IndexedClaim {
    const evaluated = this.#policy(claim);
    if (evaluated.refused !== undefined) return { ...evaluated, inCluster: false, object };
    if (!this.#counts(evaluated)) return { ...evaluated, refused: claim.kept, inCluster: false, object };
    const refused = this.#isMapped(evaluated) ? undefined : this.#inCluster(evaluated.name);
    return { ...evaluated, refused, inCluster: refused !== undefined, object };
  }

  /** Whether the object has the name now, or had it under an earlier leader. */
  #isMapped({ name, claim }: EvaluatedClaim): boolean {
    const holder = this.#planned.get(name)?.from;
    return holder === undefined ? this.#orderOf(name) !== undefined : sameObject(holder, claim.from);
  }

  #followPending(evaluated: EvaluatedClaim, by: 1 | -1): void {
    this.#count(candidateTarget(evaluated), by, evaluated.name);
    const target = pendingTarget(evaluated);
    if (target === undefined) return;
    this.#count(target, by, evaluated.name);
    if (by === 1) this.#pending.add(evaluated.name);
    else this.#pending.remove(evaluated.name);
  }

  #count(target: string | undefined, by: 1 | -1, name: string): void {
    if (target === undefined) return;
    const names = getOrAdd(this.#uses, target, () => new Map<string, number>());
    const count = (names.get(name) ?? 0) + by;
    if (count > 0) names.set(name, count);
    else names.delete(name);
    if (names.size === 0) this.#uses.delete(target);
  }

  #index(indexed: IndexedClaim): void {
    if (!isRanked(indexed)) return;
    if (indexed.refused === undefined) addTo(this.#byName, indexed.name, indexed);
    const names = getOrAdd(this.#byNamespace, indexed.claim.from.namespace, () => new Map<string, IndexedClaim[]>());
    addTo(names, indexed.name, indexed);
    this.#markDirty(indexed);
  }

  #unindex(indexed: IndexedClaim): void {
    if (!isRanked(indexed)) return;
    if (indexed.refused === undefined) removeFrom(this.#byName, indexed.name, indexed);
    const namespace = indexed.claim.from.namespace;
    const names = this.#byNamespace.get(namespace);
    if (names !== undefined) {
      removeFrom(names, indexed.name, indexed);
      if (names.size === 0) this.#byNamespace.delete(namespace);
    }
    this.#markDirty(indexed);
  }

  #markDirty(indexed: IndexedClaim): void {
    const namespace = indexed.claim.from.namespace;
    this.#dirtyNames.add(indexed.name);
    const size = this.#byNamespace.get(namespace)?.size ?? 0;
    if (size > this.#quota || this.#withinQuota.has(namespace)) this.#dirtyNamespaces.add(namespace);
  }

  /** Over quota, published names stay, in the order of their publication. Names of the oldest objects get the rest. */
  #applyQuota(namespace: string): void {
    const names = this.#byNamespace.get(namespace);
    const before = this.#withinQuota.get(namespace);
    let after: ReadonlySet<string> | undefined;
    if (names !== undefined && names.size > this.#quota) {
      const ranked = [...names.values()]
        .map(oldest)
        .filter((indexed) => indexed !== undefined)
        .map((indexed) => ({ indexed, order: this.#orderIn(namespace, indexed.name) }))
        .sort(
          (a, b) =>
            a.order - b.order || compareClaims(a.indexed, b.indexed) || compareNames(a.indexed.name, b.indexed.name),
        );
      const published = ranked.filter(({ order }) => order < UNPUBLISHED).length;
      const kept = ranked.slice(0, Math.max(this.#quota, published));
      after = new Set(kept.map(({ indexed }) => indexed.name));
    }
    if (after === undefined) this.#withinQuota.delete(namespace);
    else this.#withinQuota.set(namespace, after);
    for (const [name, claims] of names ?? []) {
      if ((before?.has(name) ?? true) === (after?.has(name) ?? true)) continue;
      this.#dirtyNames.add(name);
      for (const { object } of claims) this.#touched.add(object);
    }
  }

  /** When a name of this namespace was published. A name that another namespace has now counts as unpublished. */
  #orderIn(namespace: string, name: string): number {
    const holder = this.#planned.get(name)?.from.namespace ?? namespace;
    return (holder === namespace ? this.#orderOf(name) : undefined) ?? UNPUBLISHED;
  }

  #planName(name: string): PlannedName | undefined {
    const winner = this.#winner(name);
    if (winner !== undefined && (this.#byName.get(name)?.length ?? 0) > 1) this.#contested.set(name, winner);
    else this.#contested.delete(name);
    if (winner === undefined || typeof winner.claim.target !== "string") return undefined;
    const { target, from } = winner.claim;
    const planned = { name, wildcard: winner.wildcard, target, from };
    return this.#isAnyDepth(name, target) ? { ...planned, anyDepth: true } : planned;
  }

  /**
   * The oldest object whose target DNS leads to wins. If there is none, the oldest object wins. An object with
   * evidence wins over one that keeps the name without evidence.
   */
  #winner(name: string): IndexedClaim | undefined {
    const claims = (this.#byName.get(name) ?? []).filter((indexed) => this.#isWithinQuota(indexed));
    const proven = claims.filter(({ claim }) => claim.kept === undefined);
    const first = oldest(proven.filter(({ claim }) => claim.verified)) ?? oldest(proven);
    return first ?? (proven.length < claims.length ? oldest(claims.filter((one) => this.#counts(one))) : undefined);
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
    return this.isWithinQuota(claim.from.namespace, name);
  }

  #decisionOn(indexed: IndexedClaim): ClaimDecision {
    const { target, kept } = indexed.claim;
    const undecided = isUndecided(indexed) ? (this.#quotaReason(indexed) ?? indexed.refused) : indexed.refused;
    const reason = undecided ?? (this.#counts(indexed) ? this.#conflictOrQuota(indexed) : kept);
    if (reason !== undefined) return { mapped: false, reason };
    return typeof target === "string" ? { mapped: true, target } : { mapped: false, reason: target };
  }

  #quotaReason(indexed: IndexedClaim): Reason | undefined {
    return this.#isWithinQuota(indexed) ? undefined : beyondQuota(indexed.claim.from.namespace, this.#quota);
  }

  #conflictOrQuota(indexed: IndexedClaim): Reason | undefined {
    const beyond = this.#quotaReason(indexed);
    if (beyond !== undefined) return beyond;
    const isDirty = this.#dirtyNames.has(indexed.name);
    const winner = (isDirty ? undefined : this.#contested.get(indexed.name)) ?? this.#winner(indexed.name);
    if (winner === undefined || winner.claim.target === indexed.claim.target) return undefined;
    const { kind, namespace, name } = winner.claim.from;
    const byDns = winner.claim.verified && !indexed.claim.verified;
    const why = byDns ? "has the target that DNS leads to" : "is older";
    const text = `${kind} ${namespace}/${name} ${why} and maps the name to the target ${String(winner.claim.target)}`;
    return { code: "conflict", text };
  }
}

function oldest(claims: readonly IndexedClaim[]): IndexedClaim | undefined {
  let first: IndexedClaim | undefined;
  for (const claim of claims) if (first === undefined || compareClaims(claim, first) < 0) first = claim;
  return first;
}

/** Sorts by age, oldest first, then by namespace, name and key, so that the order of events does not matter. */
function compareClaims(a: IndexedClaim, b: IndexedClaim): number {
  return (
    compareNames(a.claim.created, b.claim.created) ||
    compareNames(a.claim.from.namespace, b.claim.from.namespace) ||
    compareNames(a.claim.from.name, b.claim.from.name) ||
    compareNames(a.object, b.object)
  );
}

function samePlan(a: PlannedName | undefined, b: PlannedName | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return a.target === b.target && a.anyDepth === b.anyDepth && sameObject(a.from, b.from);
}

/** Whether two references are to the same object. */
export function sameObject(a: ObjectRef, b: ObjectRef): boolean {
  return a.namespace === b.namespace && a.name === b.name && a.kind === b.kind;
}
