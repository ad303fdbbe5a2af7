import { getHeapStatistics } from "node:v8";
import { sameObject } from "#hostmap/conflict.ts";
import { foldCase, parseHostname } from "#hostmap/hostnames.ts";
import { getOrAdd } from "#hostmap/multi-map.ts";
import type { Plan } from "#hostmap/plan.ts";
import type { ObjectRef } from "#hostmap/types.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import type { View } from "./types.ts";

/** Claims that a namespace may have for each name of its quota: several objects may claim a name. */
const CLAIMS_PER_NAME = 4;
/** Claims that fit in each namespace, whatever the others have. */
const ALWAYS = 50;
/** Bytes of the heap for each claim in all. A claim takes 1.5 KB, and a published name as much again. */
const HEAP_PER_CLAIM = 4_000;
/**
 * How often namespaces with claims that were left out are checked for room, milliseconds. If one has room, all objects
 * are listed again, so a tenant who makes room again and again must not make that frequent.
 */
const AGAIN_MS = 30_000;
/** Stands for the name of an object without valid names. RFC 2606 reserves `.invalid`. */
const NAMELESS = "left-out.invalid";

interface BudgetOptions {
  /** The setting `policy.maxNamesPerNamespace`. */
  readonly maxNamesPerNamespace: number;
  /** Claims in all namespaces. Default: what the heap has room for. Only tests set it. */
  readonly total?: number;
  /** It knows who has which name. */
  readonly plan: Pick<Plan, "planned" | "lineOf">;
}

/** An object, as the budget counts it. */
export interface Entry {
  /** The object in calls of the sink. */
  readonly object: string;
  readonly from: ObjectRef;
  /** Its objects are read again when there is room for more. */
  readonly kind: { relist(): void };
  /** Claims that are kept. */
  used: number;
  /** The first name that was left out. */
  leftOut: string | undefined;
  /** The counts without the names of its Gateway, which a route may also claim. */
  own: Count;
}
type Count = Readonly<Pick<Entry, "used" | "leftOut">>;
export const NOTHING: Count = { used: 0, leftOut: undefined };

/** A namespace with claims that were left out. */
interface Full {
  readonly kinds: Set<Entry["kind"]>;
  /** Whose object reports it. Undefined: that object is gone. */
  reporter: Entry | undefined;
}

/**
 * Limits the claims that are kept, where objects enter: for each namespace, and in all. What comes later is counted,
 * reported by one object of each namespace (`too-many-claims`), and not kept at all. The namespace is listed again when
 * there is room, or when that object is gone. A claim that has its name, and the first 50 claims of each namespace,
 * always fit. So after a restart, the order of the list decides only about names that nobody had.
 */
export class ClaimBudget {
  readonly #options: BudgetOptions;
  readonly #perNamespace: number;
  readonly #total: number;
  /** Claims that are kept, by namespace and in all. */
  readonly #used = new Map<string, number>();
  #usedInAll = 0;
  readonly #full = new Map<string, Full>();
  readonly #again: Reconciler;
  /** By name that an earlier leader published: the first object of its namespace that claims it. */
  readonly #first = new Map<string, string>();
  #leftOut = 0;

  constructor(options: BudgetOptions) {
    this.#options = options;
    this.#perNamespace = Math.max(ALWAYS, CLAIMS_PER_NAME * options.maxNamesPerNamespace);
    this.#total = options.total ?? Math.floor(getHeapStatistics().heap_size_limit / HEAP_PER_CLAIM);
    this.#again = new Reconciler({ reconcile: () => this.#listFreed() });
  }

  /** Claims that were left out since the start. An object counts each time that it is read. */
  get leftOut(): number {
    return this.#leftOut;
  }

  async stop(): Promise<void> {
    await this.#again.stop();
  }

  /** Counts a claim of an object, if there is room for it. */
  takes(entry: Entry, name: string): boolean {
    const fits = this.#roomOf(entry.from.namespace) > 0 || this.#isMapped(name, entry);
    if (fits) this.#count(entry, 1);
    else this.#leaveOut(entry, name);
    return fits;
  }

  /** Counts only the first claims of an object. */
  keep(entry: Entry, { used, leftOut }: Count): void {
    this.#count(entry, used - entry.used);
    entry.leftOut = leftOut;
    const full = this.#full.get(entry.from.namespace);
    if (full?.reporter === entry && leftOut === undefined) full.reporter = undefined;
  }

  /** The claim that reports what its namespace lacks room for. Undefined: another object reports it, or nothing. */
  reportOf(entry: Entry): Pick<View, "hostname" | "hints"> | undefined {
    const {
      from: { namespace },
      leftOut = "",
    } = entry;
    if (this.#full.get(namespace)?.reporter !== entry) return undefined;
    const text =
      `the namespace ${namespace} has more than the ${this.#perNamespace} claims that are kept of one, or the ` +
      `cluster more than ${this.#total}; those that came last are left out`;
    // With an invalid name, that would be the reason of the claim.
    const hostname = parseHostname(leftOut).kind === "invalid" ? NAMELESS : leftOut;
    return { hostname, hints: { code: "too-many-claims", text } };
  }

  #count(entry: Entry, by: number): void {
    const { namespace } = entry.from;
    entry.used += by;
    this.#usedInAll += by;
    const used = (this.#used.get(namespace) ?? 0) + by;
    if (used > 0) this.#used.set(namespace, used);
    else this.#used.delete(namespace);
  }

  /** Claims that still fit. */
  #roomOf(namespace: string): number {
    const used = this.#used.get(namespace) ?? 0;
    return Math.min(this.#perNamespace - used, Math.max(ALWAYS - used, this.#total - this.#usedInAll));
  }

  /** Whether the object has the name, now or since an earlier leader. Such a claim needs no room. */
  #isMapped(name: string, { from, object }: Entry): boolean {
    const key = foldCase(name);
    const { plan } = this.#options;
    const planned = plan.planned.get(key);
    if (planned !== undefined) return sameObject(planned.from, from);
    const line = plan.lineOf(key);
    if (line === undefined || (line.holder ?? from.namespace) !== from.namespace) return false;
    return getOrAdd(this.#first, key, () => object) === object;
  }

  #leaveOut(entry: Entry, name: string): void {
    this.#leftOut += 1;
    entry.leftOut ??= name;
    const full = getOrAdd(this.#full, entry.from.namespace, (): Full => ({ kinds: new Set(), reporter: undefined }));
    full.kinds.add(entry.kind);
    full.reporter ??= entry;
    this.#again.enqueue(AGAIN_MS);
  }

  /** Lists the kinds again of which these namespaces had more than fits. */
  #listFreed() {
    const { plan } = this.#options;
    for (const name of this.#first.keys()) if (plan.lineOf(name) === undefined) this.#first.delete(name);
    const freed = [...this.#full].filter(
      ([namespace, { reporter }]) => reporter === undefined || this.#roomOf(namespace) > 0,
    );
    for (const [namespace] of freed) this.#full.delete(namespace);
    for (const kind of new Set(freed.flatMap(([, { kinds }]) => [...kinds]))) kind.relist();
    return this.#full.size > 0 ? { requeueAfter: AGAIN_MS } : undefined;
  }
}
