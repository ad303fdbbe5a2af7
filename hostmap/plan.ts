import type { ClaimPolicy, EvaluatedClaim } from "./claim-policy.ts";
import { compareNames } from "./hostnames.ts";
import type { ClaimDecision, ObjectRef, Reason } from "./types.ts";

/** What a name leads to, and the object that won it. */
export interface PlannedName {
  readonly name: string;
  readonly wildcard: boolean;
  readonly target: string;
  readonly from: ObjectRef;
}

/** A claim as status shows it: the name as far as it could be read, and the verdict. */
export interface ReportedClaim {
  readonly name: string;
  readonly wildcard: boolean;
  readonly from: ObjectRef;
  /** creationTimestamp of the object. */
  readonly since: string;
  readonly verdict: ClaimDecision;
}

interface Held extends EvaluatedClaim {
  readonly object: string;
}

/**
 * The desired mapping, kept incrementally: a change of one object costs what that object's names cost, whatever else is mapped.
 *
 *   set(object, claims) ──> judged (policy) ──> by name: oldest object wins ──> take(): the names that changed
 *                                         └──> by namespace: quota
 */
export class Plan {
  readonly #judge: ClaimPolicy;
  readonly #quota: number;
  readonly #byObject = new Map<string, readonly Held[]>();
  readonly #byName = new Map<string, Held[]>();
  /** Namespace -> name -> its claims from there; only claims that policy lets through count. */
  readonly #byNamespace = new Map<string, Map<string, Held[]>>();
  /** Namespaces over their quota, with the names that fit. */
  readonly #fitting = new Map<string, ReadonlySet<string>>();
  readonly #planned = new Map<string, PlannedName>();
  /** How many planned names lead to each target. */
  readonly #leading = new Map<string, number>();
  #dirtyNames = new Set<string>();
  #dirtyNamespaces = new Set<string>();

  constructor(judge: ClaimPolicy, maxNamesPerNamespace: number) {
    this.#judge = judge;
    this.#quota = maxNamesPerNamespace;
  }

  /** Replaces everything that an object claims; an object that is gone claims nothing. */
  set(object: string, claims: readonly Parameters<ClaimPolicy>[0][]): void {
    for (const old of this.#byObject.get(object) ?? []) this.#forget(old);
    const held = claims.map((claim) => ({ ...this.#judge(claim), object }));
    if (held.length === 0) this.#byObject.delete(object);
    else this.#byObject.set(object, held);
    for (const next of held) this.#remember(next);
  }

  /** Judges the claims of a namespace again, after what it may claim has changed. Costs a look at all objects. */
  rejudge(namespace: string): void {
    for (const [object, held] of this.#byObject) {
      if (held[0]?.claim.from.namespace === namespace) {
        this.set(
          object,
          held.map(({ claim }) => claim),
        );
      }
    }
  }

  /** The names whose outcome changed since the last call: what they lead to now, or undefined for "no longer wanted". */
  take(): ReadonlyMap<string, PlannedName | undefined> {
    for (const namespace of this.#dirtyNamespaces) this.#applyQuota(namespace);
    const changes = new Map<string, PlannedName | undefined>();
    for (const name of this.#dirtyNames) {
      const next = this.#decide(name);
      const before = this.#planned.get(name);
      if (samePlan(before, next)) continue;
      this.#count(before?.target, -1);
      this.#count(next?.target, 1);
      if (next === undefined) this.#planned.delete(name);
      else this.#planned.set(name, next);
      changes.set(name, next);
    }
    this.#dirtyNamespaces = new Set();
    this.#dirtyNames = new Set();
    return changes;
  }

  /** Everything wanted, as of the last `take()`. */
  get planned(): ReadonlyMap<string, PlannedName> {
    return this.#planned;
  }

  /** The targets that names lead to, as of the last `take()`. */
  get targets(): ReadonlySet<string> {
    return new Set(this.#leading.keys());
  }

  /** Every claim with its verdict; costs all claims, so for status only. */
  *report(): Generator<ReportedClaim> {
    for (const claims of this.#byObject.values()) {
      for (const held of claims) {
        const { from, created: since } = held.claim;
        yield { name: held.name, wildcard: held.wildcard, from, since, verdict: this.#verdict(held) };
      }
    }
  }

  #count(target: string | undefined, by: 1 | -1): void {
    if (target === undefined) return;
    const count = (this.#leading.get(target) ?? 0) + by;
    if (count > 0) this.#leading.set(target, count);
    else this.#leading.delete(target);
  }

  #remember(held: Held): void {
    if (held.refused !== undefined) return;
    push(this.#byName, held.name, held);
    const names = getOrAdd(this.#byNamespace, held.claim.from.namespace, () => new Map<string, Held[]>());
    push(names, held.name, held);
    this.#touch(held);
  }

  #forget(held: Held): void {
    if (held.refused !== undefined) return;
    drop(this.#byName, held.name, held);
    const namespace = held.claim.from.namespace;
    const names = this.#byNamespace.get(namespace);
    if (names !== undefined) {
      drop(names, held.name, held);
      if (names.size === 0) this.#byNamespace.delete(namespace);
    }
    this.#touch(held);
  }

  #touch(held: Held): void {
    const namespace = held.claim.from.namespace;
    this.#dirtyNames.add(held.name);
    const size = this.#byNamespace.get(namespace)?.size ?? 0;
    if (size > this.#quota || this.#fitting.has(namespace)) this.#dirtyNamespaces.add(namespace);
  }

  /** Over quota the names of the oldest objects stay: a newcomer cannot push out what worked. */
  #applyQuota(namespace: string): void {
    const names = this.#byNamespace.get(namespace);
    const before = this.#fitting.get(namespace);
    let after: ReadonlySet<string> | undefined;
    if (names !== undefined && names.size > this.#quota) {
      const ranked = [...names.values()].map(oldest).filter((held) => held !== undefined);
      ranked.sort((a, b) => compareClaims(a, b) || compareNames(a.name, b.name));
      after = new Set(ranked.slice(0, this.#quota).map(({ name }) => name));
    }
    if (after === undefined) this.#fitting.delete(namespace);
    else this.#fitting.set(namespace, after);
    for (const name of names?.keys() ?? []) {
      if ((before?.has(name) ?? true) !== (after?.has(name) ?? true)) this.#dirtyNames.add(name);
    }
  }

  #decide(name: string): PlannedName | undefined {
    const winner = this.#winner(name);
    if (winner === undefined || typeof winner.claim.target !== "string") return undefined;
    return { name, wildcard: winner.wildcard, target: winner.claim.target, from: winner.claim.from };
  }

  #winner(name: string): Held | undefined {
    return oldest((this.#byName.get(name) ?? []).filter((held) => this.#fits(held)));
  }

  #fits(held: Held): boolean {
    return this.#fitting.get(held.claim.from.namespace)?.has(held.name) ?? true;
  }

  #verdict(held: Held): ClaimDecision {
    const { target } = held.claim;
    const reason = held.refused ?? this.#refusalAmongOthers(held);
    if (reason !== undefined) return { mapped: false, reason };
    return typeof target === "string" ? { mapped: true, target } : { mapped: false, reason: target };
  }

  #refusalAmongOthers(held: Held): Reason | undefined {
    const { from, target } = held.claim;
    if (!this.#fits(held)) {
      const text = `the namespace ${from.namespace} claims more than ${this.#quota} names; those of its oldest objects are mapped`;
      return { code: "namespace-quota", text };
    }
    const winner = this.#winner(held.name);
    if (winner === undefined || winner.claim.target === target) return undefined;
    const { kind, namespace, name } = winner.claim.from;
    const text = `${kind} ${namespace}/${name} is older and leads the name to the target ${String(winner.claim.target)}`;
    return { code: "conflict", text };
  }
}

function oldest(claims: readonly Held[]): Held | undefined {
  let first: Held | undefined;
  for (const claim of claims) if (first === undefined || compareClaims(claim, first) < 0) first = claim;
  return first;
}

/** Oldest object first; then by namespace, name and key, so that the order in which objects arrive never matters. */
function compareClaims(a: Held, b: Held): number {
  return (
    compareNames(a.claim.created, b.claim.created) ||
    compareNames(a.claim.from.namespace, b.claim.from.namespace) ||
    compareNames(a.claim.from.name, b.claim.from.name) ||
    compareNames(a.object, b.object)
  );
}

function samePlan(a: PlannedName | undefined, b: PlannedName | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return (
    a.target === b.target &&
    a.from.namespace === b.from.namespace &&
    a.from.name === b.from.name &&
    a.from.kind === b.from.kind
  );
}

function getOrAdd<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  let value = map.get(key);
  if (value === undefined) {
    value = make();
    map.set(key, value);
  }
  return value;
}

function push(map: Map<string, Held[]>, key: string, held: Held): void {
  const claims = map.get(key);
  // An array that grew from nothing has room for 17: too much for what nearly always is one.
  if (claims === undefined) map.set(key, [held]);
  else claims.push(held);
}

function drop(map: Map<string, Held[]>, key: string, held: Held): void {
  const rest = (map.get(key) ?? []).filter((other) => other !== held);
  if (rest.length === 0) map.delete(key);
  else map.set(key, rest);
}
