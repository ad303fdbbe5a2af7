import type { ObjectRef } from "#hostmap/types.ts";
import { type Informer, type WatchOptions, watchObjects } from "#lib/kube/watch.ts";
import type { ClaimBudget, Entry, Watched } from "./claim-budget.ts";
import type { ObjectOrigin } from "./raw-object.ts";
import type { ViewSink } from "./types.ts";

/** The fields of an object that decide about its place in the budget. */
type Origin = Pick<ObjectOrigin, "ref" | "created">;

/**
 * Returns what is kept of an object with only those names for which `keeps` is true. Calls it once for each name, in
 * their order.
 */
export type PickNames<V> = (view: V, keeps: (name: string) => boolean) => V;

/** How the objects of one kind are limited. V is what is kept of an object. */
interface LimitedKind<V> {
  /** Precedes the object's key, `namespace/name`, in calls of the sink. */
  readonly prefix: string;
  readonly pick: PickNames<V>;
  readonly originOf: (view: V) => Origin;
}

/** The way of one source's objects into the controller: first the objects of each kind, then their claims. */
export class SourceLimit {
  readonly #budget: ClaimBudget;
  readonly #sink: ViewSink;
  /** By the object in calls of the sink. */
  readonly #entries = new Map<string, Entry>();

  constructor(budget: ClaimBudget, sink: ViewSink) {
    this.#budget = budget;
    this.#sink = sink;
  }

  /** Limits one kind. `prefix` precedes the object's key, `namespace/name`, in calls of the sink. */
  ofKind<V extends Origin>(prefix: string, pick: PickNames<V>): KindLimit<V> {
    return this.ofLists({ prefix, pick, originOf: (view) => view });
  }

  /** Limits a kind of which something else is kept than objects with an origin. */
  ofLists<V>(kind: LimitedKind<V>): KindLimit<V> {
    return new KindLimit(kind, { budget: this.#budget, sink: this.#sink, entries: this.#entries });
  }

  /** Receives the claims of objects. An object may have more claims than names. */
  readonly sink: ViewSink = (object, claims) => {
    const entry = this.#entries.get(object);
    if (entry === undefined) return this.#sink(object, claims);
    const surplus = claims.length - entry.names;
    this.#budget.change(entry, { claims: claims.length, derived: surplus > 0 ? claims : [] });
    if (surplus > 0) cutDerived(entry, Math.min(surplus, this.#budget.excessOf(entry)), this.#budget, this.#sink);
    this.#sink(object, surplus > 0 ? entry.derived : claims);
  };
}

/** Leaves out that many claims of an object that has more of them than names. */
function cutDerived(entry: Entry, count: number, budget: ClaimBudget, sink: ViewSink): void {
  if (count === 0) return;
  const names = entry.derived.map(({ hostname }) => hostname);
  const stays = budget.choose(entry, names, count);
  const derived = entry.derived.filter((_, index) => stays[index]);
  budget.change(entry, { claims: derived.length, derived, partial: true });
  budget.leaveOut(
    entry,
    names.filter((_, index) => !stays[index]),
    sink,
  );
}

interface KindDeps {
  readonly budget: ClaimBudget;
  readonly sink: ViewSink;
  readonly entries: Map<string, Entry>;
}

/** Limits the objects of one kind of a source. */
export class KindLimit<V> implements Watched {
  readonly #kind: LimitedKind<V>;
  readonly #deps: KindDeps;
  #informer: Informer<V> | undefined;

  constructor(kind: LimitedKind<V>, deps: KindDeps) {
    this.#kind = kind;
    this.#deps = deps;
  }

  /** Watches the objects of the kind. A later call replaces the earlier informer. */
  watch<T>(options: WatchOptions<V, T>): Informer<V> {
    const informer = watchObjects<V, T>({
      ...options,
      project: (object) => {
        const view = options.project(object);
        return view === undefined ? undefined : this.#enter(view);
      },
      isPartial: (key) => this.#deps.entries.get(this.#kind.prefix + key)?.partial === true,
    });
    this.#informer = informer;
    return informer;
  }

  /** Call this once an object is gone, and nothing is kept of it. */
  leave(key: string): void {
    this.#remove(this.#kind.prefix + key);
  }

  refresh(namespace: string): void {
    this.#informer?.refresh(namespace);
  }

  giveUp(entry: Entry, count: number): void {
    const { budget, sink } = this.#deps;
    const surplus = Math.min(count, Math.max(0, entry.claims - entry.names));
    if (surplus > 0) {
      cutDerived(entry, surplus, budget, sink);
      sink(entry.object, entry.derived);
    }
    if (count > surplus) this.#informer?.revise(keyOf(entry.from), (view) => this.#cut(view, entry, count - surplus));
  }

  /** Returns what is kept of an object that is new or has changed. */
  #enter(view: V): V | undefined {
    const { budget, entries } = this.#deps;
    const { ref: from, created } = this.#kind.originOf(view);
    const object = this.#kind.prefix + keyOf(from);
    const { claims = 0, derived = [] } = entries.get(object) ?? {};
    this.#remove(object);
    const names = Math.max(1, this.#namesOf(view).length);
    const entry: Entry = { object, from, created, kind: this, names, claims, derived, partial: false };
    entries.set(object, entry);
    budget.add(entry);
    const excess = budget.excessOf(entry);
    return excess === 0 ? view : this.#cut(view, entry, excess);
  }

  /** Leaves out that many names of a view. Undefined: nothing is kept of the object. */
  #cut(view: V, entry: Entry, count: number): V | undefined {
    const { budget, sink } = this.#deps;
    const own = this.#namesOf(view);
    const names = own.length === 0 ? [""] : own;
    const stays = budget.choose(entry, names, count);
    const left = names.filter((_, index) => !stays[index]);
    if (left.length === 0) return view;
    budget.change(entry, { names: names.length - left.length, partial: true });
    const isGone = left.length === names.length;
    if (isGone) this.#remove(entry.object);
    budget.leaveOut(entry, left, sink);
    let index = 0;
    return isGone ? undefined : this.#kind.pick(view, () => stays[index++] === true);
  }

  #namesOf(view: V): string[] {
    const names: string[] = [];
    this.#kind.pick(view, (name) => names.push(name) > 0);
    return names;
  }

  #remove(object: string): void {
    const entry = this.#deps.entries.get(object);
    if (entry === undefined) return;
    this.#deps.entries.delete(object);
    this.#deps.budget.remove(entry);
  }
}

function keyOf({ namespace, name }: ObjectRef): string {
  return namespace === "" ? name : `${namespace}/${name}`;
}
