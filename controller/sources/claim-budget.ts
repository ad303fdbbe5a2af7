import { getHeapStatistics } from "node:v8";
import { sameObject } from "#hostmap/conflict.ts";
import { compareNames, foldCase, parseHostname } from "#hostmap/hostnames.ts";
import { getOrAdd } from "#hostmap/multi-map.ts";
import type { ObjectRef, Reason } from "#hostmap/types.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import type { Published, View, ViewSink } from "./types.ts";

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

/** The names of an object, or the claims that it has beyond them, as the budget counts them. */
export interface Entry {
  /** The object in calls of the sink. */
  readonly object: string;
  readonly from: ObjectRef;
  readonly created: string;
  readonly limit: Limit;
  /** What is kept. An object without names has one empty name. */
  names: readonly string[];
  /** All claims of the object, if `names` are those that it has beyond its own names. */
  views?: readonly View[];
  /** Whether something is left out. */
  isPartial: boolean;
}

/** The objects of one kind, without the type of what is kept of them. */
export interface Limit {
  readonly sink: ViewSink;
  /** Leaves out the names at these places, which were counted before. */
  cut(entry: Entry, places: ReadonlySet<number>): void;
  /** Reads a namespace again, because there is room for more. */
  refresh(namespace: string): void;
}

interface Account {
  /** Oldest object first. */
  readonly entries: Entry[];
  used: number;
}

/** A namespace with claims that were left out. */
interface Full {
  readonly limits: Set<Limit>;
  /** Withdraws the claim that reports it. */
  readonly withdraw: () => void;
}

/**
 * Limits the claims that are kept, where objects enter: for each namespace, oldest objects first, and in all. The rest
 * is counted and reported once for each namespace (`too-many-claims`), and not kept at all. It is listed again when
 * there is room. A claim that has its name, and the first 50 claims of each namespace, always fit.
 */
export class ClaimBudget {
  readonly #options: BudgetOptions;
  readonly #perNamespace: number;
  readonly #total: number;
  readonly #accounts = new Map<string, Account>();
  readonly #full = new Map<string, Full>();
  readonly #again: Reconciler;
  /** Names that an earlier leader published, each with its namespace and the first object there that claims it. */
  readonly #published = new Map<string, { readonly holder: string | undefined; first: string | undefined }>();
  #used = 0;
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
    for (const namespace of [...this.#full.keys()]) this.#list(namespace);
  }

  async stop(): Promise<void> {
    await this.#again.stop();
  }

  /**
   * Counts names of an object. If there is no room, younger objects of its namespace give up theirs first. Returns the
   * places of the names that are left out all the same.
   */
  enter(entry: Entry): ReadonlySet<number> {
    const account = getOrAdd(this.#accounts, entry.from.namespace, () => ({ entries: [], used: 0 }));
    account.entries.splice(placeOf(account.entries, entry), 0, entry);
    this.#charge(account, entry.names.length);
    for (const younger of this.#room(account) < 0 ? account.entries.toReversed() : []) {
      const places = this.#cut(younger, account);
      if (younger === entry) return places;
      if (places.size > 0) younger.limit.cut(younger, places);
    }
    return new Set();
  }

  /** Counts the names of an object no more. */
  leave(entry: Entry): void {
    const account = this.#accounts.get(entry.from.namespace);
    const place = account?.entries.indexOf(entry) ?? -1;
    if (account === undefined || place === -1) return;
    account.entries.splice(place, 1);
    this.#charge(account, -entry.names.length);
    if (account.entries.length === 0) this.#accounts.delete(entry.from.namespace);
  }

  /** Leaves out the names of an object that have no room, the last ones first, but none that it has. */
  #cut(entry: Entry, account: Account): ReadonlySet<number> {
    const count = -this.#room(account);
    const places = new Set<number>();
    for (let place = entry.names.length - 1; place >= 0 && places.size < count; place -= 1) {
      if (!this.#isMapped(entry.names[place] ?? "", entry)) places.add(place);
    }
    if (places.size === 0) return places;
    const left = entry.names.filter((_, place) => places.has(place));
    const stays = entry.names.filter((_, place) => !places.has(place));
    entry.isPartial = true;
    if (stays.length === 0) this.leave(entry);
    else this.#charge(account, -places.size);
    entry.names = stays;
    this.#leaveOut(entry, left);
    return places;
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

  /** Counts claims of an object that were left out, and reports the first one of a namespace. */
  #leaveOut({ object, from, created, limit }: Entry, names: readonly string[]): void {
    this.#leftOut += names.length;
    const full = getOrAdd(this.#full, from.namespace, () => {
      const place = `${object} ${TOO_MANY}`;
      // With an invalid name, that would be the reason of the claim.
      const hostname = names.find((name) => parseHostname(name).kind !== "invalid") ?? NAMELESS;
      limit.sink(place, [{ hostname, from, created, hints: this.#reasonFor(from.namespace) }]);
      return { limits: new Set<Limit>(), withdraw: () => limit.sink(place, []) };
    });
    full.limits.add(limit);
    this.#again.enqueue(AGAIN_MS);
  }

  #reasonFor(namespace: string): Reason {
    const text =
      `the namespace ${namespace} has more than the ${this.#perNamespace} claims that are kept of one, or the ` +
      `cluster more than ${this.#total}; those of the youngest objects are left out`;
    return { code: TOO_MANY, text };
  }

  #charge(account: Account, by: number): void {
    account.used += by;
    this.#used += by;
  }

  /** Claims that still fit. Negative: claims that have to go. */
  #room({ used }: Account): number {
    return Math.min(this.#perNamespace - used, Math.max(ALWAYS - used, this.#total - this.#used));
  }

  #listFreed() {
    for (const namespace of [...this.#full.keys()]) {
      const account = this.#accounts.get(namespace);
      if (account === undefined || this.#room(account) > 0) this.#list(namespace);
    }
    return this.#full.size > 0 ? { requeueAfter: AGAIN_MS } : undefined;
  }

  #list(namespace: string): void {
    const full = this.#full.get(namespace);
    this.#full.delete(namespace);
    full?.withdraw();
    for (const limit of full?.limits ?? []) limit.refresh(namespace);
  }
}

/** Where an entry belongs among entries with the oldest object first. */
function placeOf(entries: readonly Entry[], entry: Entry): number {
  let [low, high] = [0, entries.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compareAges(entries[middle] ?? entry, entry) <= 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

function compareAges(one: Entry, other: Entry): number {
  return compareNames(one.created, other.created) || compareNames(one.object, other.object);
}
