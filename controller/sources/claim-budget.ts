import { getHeapStatistics } from "node:v8";
import { sameObject } from "#hostmap/conflict.ts";
import { foldCase, parseHostname } from "#hostmap/hostnames.ts";
import { getOrAdd } from "#hostmap/multi-map.ts";
import type { ObjectRef, Reason } from "#hostmap/types.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import type { Published, ViewSink } from "./types.ts";

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
const TOO_MANY = "too-many-claims";
/** Stands for the name of an object without valid names. RFC 2606 reserves `.invalid`. */
const NAMELESS = "left-out.invalid";

interface BudgetOptions {
  /** The setting `policy.maxNamesPerNamespace`. */
  readonly maxNamesPerNamespace: number;
  /** Claims in all namespaces. Default: what the heap has room for. Only tests set it. */
  readonly total?: number;
  /** The object whose claim has the name now. Undefined: the name is not mapped. */
  readonly holderOf: (name: string) => ObjectRef | undefined;
}

/** An object, as the budget counts it. */
export interface Entry {
  /** The object in calls of the sink. */
  readonly object: string;
  readonly from: ObjectRef;
  readonly created: string;
  readonly kind: {
    readonly sink: ViewSink;
    /** Reads the objects again, because there is room for more. */
    relist(): void;
  };
  /** Claims that are kept. */
  used: number;
  /** Whether some were left out. */
  isPartial: boolean;
}

/** A namespace with claims that were left out. */
interface Full {
  readonly kinds: Set<Entry["kind"]>;
  /** Withdraws the claim that reports it. */
  readonly withdraw: () => void;
}

/**
 * Limits the claims that are kept, where objects enter: for each namespace, and in all. What comes later is counted,
 * reported once for each namespace (`too-many-claims`), and not kept at all. The namespace is listed again when there
 * is room. A claim that has its name, and the first 50 claims of each namespace, always fit. So after a restart, the
 * order of the list decides only about names that nobody had.
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
  /** Names that an earlier leader published, each with its namespace and the first object there that claims it. */
  readonly #published = new Map<string, { readonly holder: string | undefined; first: string | undefined }>();
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

  /** Called for a new leader: the published names fit from now on, so their objects are listed again. */
  keep(published: Published): void {
    this.#published.clear();
    for (const [name, { holder }] of published) this.#published.set(name, { holder, first: undefined });
    this.#list([...this.#full.keys()]);
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

  /** Counts all claims of an object no more, except the first ones. */
  release(entry: Entry, kept = 0): void {
    this.#count(entry, Math.min(0, kept - entry.used));
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
    const holder = this.#options.holderOf(key);
    if (holder !== undefined) return sameObject(holder, from);
    const line = this.#published.get(key);
    if (line === undefined || (line.holder ?? from.namespace) !== from.namespace) return false;
    line.first ??= object;
    return line.first === object;
  }

  /** Counts a claim that was left out, and reports the first one of a namespace. */
  #leaveOut(entry: Entry, name: string): void {
    const { object, from, created, kind } = entry;
    this.#leftOut += 1;
    entry.isPartial = true;
    const full = getOrAdd(this.#full, from.namespace, () => {
      const place = `${object} ${TOO_MANY}`;
      // With an invalid name, that would be the reason of the claim.
      const hostname = parseHostname(name).kind === "invalid" ? NAMELESS : name;
      kind.sink(place, [{ hostname, from, created, hints: this.#reasonFor(from.namespace) }]);
      return { kinds: new Set<Entry["kind"]>(), withdraw: () => kind.sink(place, []) };
    });
    full.kinds.add(kind);
    this.#again.enqueue(AGAIN_MS);
  }

  #reasonFor(namespace: string): Reason {
    const text =
      `the namespace ${namespace} has more than the ${this.#perNamespace} claims that are kept of one, or the ` +
      `cluster more than ${this.#total}; those that came last are left out`;
    return { code: TOO_MANY, text };
  }

  #listFreed() {
    this.#list([...this.#full.keys()].filter((namespace) => this.#roomOf(namespace) > 0));
    return this.#full.size > 0 ? { requeueAfter: AGAIN_MS } : undefined;
  }

  /** Lists the kinds again of which these namespaces had more than fits. */
  #list(namespaces: readonly string[]): void {
    const freed = namespaces.flatMap((namespace) => this.#full.get(namespace) ?? []);
    for (const namespace of namespaces) this.#full.delete(namespace);
    for (const { withdraw } of freed) withdraw();
    for (const kind of new Set(freed.flatMap(({ kinds }) => [...kinds]))) kind.relist();
  }
}
