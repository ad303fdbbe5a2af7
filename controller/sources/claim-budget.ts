import { getHeapStatistics } from "node:v8";
import { sameObject } from "#hostmap/conflict.ts";
import { compareNames, foldCase } from "#hostmap/hostnames.ts";
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
/** How often namespaces with claims that were left out are checked for room, milliseconds. */
const AGAIN_MS = 10_000;

interface BudgetOptions {
  /** The setting `policy.maxNamesPerNamespace`. */
  readonly maxNamesPerNamespace: number;
  /** Claims in all namespaces. Default: what the heap has room for. Only tests set it. */
  readonly total?: number;
  /** See `AGAIN_MS`. Only tests set it. */
  readonly againMs?: number;
  /** The object whose claim has the name now. Undefined: the name is not mapped. */
  readonly holderOf: (name: string) => ObjectRef | undefined;
}

/** What one object holds. */
export interface Entry {
  readonly object: string;
  readonly from: ObjectRef;
  readonly created: string;
  readonly kind: Watched;
  /** Names that are kept of the object, at least one. */
  names: number;
  claims: number;
  /** The claims of an object that has more of them than names, such as a route with the names of its Gateway. */
  derived: readonly View[];
  /** Whether some of its names or claims are left out. */
  partial: boolean;
}

/** The objects of one kind, without the type of what is kept of them. */
export interface Watched {
  /** Gives up claims of an object for an older one. */
  giveUp(entry: Entry, count: number): void;
  /** Lists a namespace again. */
  refresh(namespace: string): void;
}

interface Account {
  /** Oldest object first. */
  readonly entries: Entry[];
  used: number;
}

/** A namespace with claims that were left out. */
interface Full {
  readonly kinds: Set<Watched>;
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

  /** Counts an object. */
  add(entry: Entry): void {
    const account = getOrAdd(this.#accounts, entry.from.namespace, () => ({ entries: [], used: 0 }));
    account.entries.splice(placeOf(account.entries, entry), 0, entry);
    this.#charge(account, holdsOf(entry));
  }

  remove(entry: Entry): void {
    const account = this.#accounts.get(entry.from.namespace);
    if (account === undefined) return;
    account.entries.splice(account.entries.indexOf(entry), 1);
    this.#charge(account, -holdsOf(entry));
    if (account.entries.length === 0) this.#accounts.delete(entry.from.namespace);
  }

  /** Changes what an object holds. */
  change(entry: Entry, to: Partial<Pick<Entry, "names" | "claims" | "derived" | "partial">>): void {
    const before = holdsOf(entry);
    Object.assign(entry, to);
    const account = this.#accounts.get(entry.from.namespace);
    if (account !== undefined) this.#charge(account, holdsOf(entry) - before);
  }

  /**
   * How many claims of an object have to go, although the younger objects of its namespace have given up theirs. The
   * object is already counted in full.
   */
  excessOf(entry: Entry): number {
    const account = this.#accounts.get(entry.from.namespace);
    if (account === undefined || this.#room(account) >= 0) return 0;
    for (const younger of account.entries.toReversed()) {
      if (younger === entry || this.#room(account) >= 0) break;
      younger.kind.giveUp(younger, -this.#room(account));
    }
    return Math.max(0, -this.#room(account));
  }

  /** Chooses which of an object's names stay if `count` of them have to go. The last ones go first. */
  choose(entry: Entry, names: readonly string[], count: number): readonly boolean[] {
    const stays = new Array<boolean>(names.length).fill(true);
    let left = count;
    for (let index = names.length - 1; index >= 0 && left > 0; index -= 1) {
      if (this.#isMapped(names[index] ?? "", entry)) continue;
      stays[index] = false;
      left -= 1;
    }
    return stays;
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
  leaveOut(entry: Entry, names: readonly string[], report: ViewSink): void {
    const { from, created, object, kind } = entry;
    this.#leftOut += names.length;
    const full = getOrAdd(this.#full, from.namespace, () => {
      const place = `${object} ${TOO_MANY}`;
      const hostname = names[0] || NAMELESS;
      report(place, [{ hostname, from, created, hints: this.#reasonFor(from.namespace) }]);
      return { kinds: new Set<Watched>(), withdraw: () => report(place, []) };
    });
    full.kinds.add(kind);
    this.#again.enqueue(this.#options.againMs ?? AGAIN_MS);
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
    return this.#full.size > 0 ? { requeueAfter: this.#options.againMs ?? AGAIN_MS } : undefined;
  }

  #list(namespace: string): void {
    const full = this.#full.get(namespace);
    this.#full.delete(namespace);
    full?.withdraw();
    for (const kind of full?.kinds ?? []) kind.refresh(namespace);
  }
}

const TOO_MANY = "too-many-claims";
/** Stands for the name of an object without names of its own. RFC 2606 reserves `.invalid`. */
const NAMELESS = "left-out.invalid";

function holdsOf({ names, claims }: Entry): number {
  return Math.max(names, claims);
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
