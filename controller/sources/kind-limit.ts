import type { ObjectRef } from "#hostmap/types.ts";
import { type Informer, type WatchOptions, watchObjects } from "#lib/kube/watch.ts";
import type { ClaimBudget, Entry, Limit } from "./claim-budget.ts";
import type { ObjectOrigin } from "./raw-object.ts";
import type { View, ViewSink } from "./types.ts";

/** The fields of a kept object that decide about its place in the budget. */
export type Kept = Pick<ObjectOrigin, "ref" | "created">;

/**
 * Returns what is kept of an object with only those names for which `keeps` is true. Calls it once for each name, in
 * their order.
 */
export type PickNames<V> = (view: V, keeps: (name: string) => boolean) => V;

interface KindOptions<V> {
  readonly budget: ClaimBudget;
  /** Precedes the object's key, `namespace/name`, in calls of the sink. */
  readonly prefix: string;
  readonly pick: PickNames<V>;
  readonly sink: ViewSink;
  /** Evaluates the objects of a namespace again, because there is room for more claims. */
  readonly reevaluate?: (namespace: string) => void;
}

/** Limits the objects of one kind of a source: first their names when they enter, then their claims. */
export class KindLimit<V extends Kept> implements Limit {
  readonly sink: ViewSink;
  readonly #options: KindOptions<V>;
  /** By key. */
  readonly #entries = new Map<string, Entry>();
  /** By key: what an object claims beyond its names, as a route with the names of its Gateway. */
  readonly #derived = new Map<string, Entry>();
  #informer: Informer<V> | undefined;

  constructor(options: KindOptions<V>) {
    this.#options = options;
    this.sink = options.sink;
  }

  /** Watches the objects of the kind. A later call replaces the earlier informer. */
  watch<T>(options: WatchOptions<V, T>): Informer<V> {
    this.#informer = watchObjects<V, T>({
      ...options,
      project: (object) => {
        const view = options.project(object);
        return view === undefined ? undefined : this.#enter(view);
      },
      isPartial: (key) => this.#entries.get(key)?.isPartial === true,
    });
    return this.#informer;
  }

  /** Call this once an object is gone, and nothing is kept of it. */
  leave(key: string): void {
    this.#remove(this.#entries, key);
    this.#remove(this.#derived, key);
  }

  refresh(namespace: string): void {
    this.#informer?.relist();
    this.#options.reevaluate?.(namespace);
  }

  /** Reports the claims of an object. An object may have more claims than names. */
  report(key: string, views: readonly View[]): void {
    this.#remove(this.#derived, key);
    const own = this.#entries.get(key);
    const surplus = own === undefined ? [] : views.slice(own.names.length);
    if (own === undefined || surplus.length === 0) {
      this.sink(this.#options.prefix + key, views);
      return;
    }
    const entry: Entry = { ...own, names: surplus.map(({ hostname }) => hostname), views, isPartial: false };
    this.#derived.set(key, entry);
    this.cut(entry, this.#options.budget.enter(entry));
  }

  cut(entry: Entry, places: ReadonlySet<number>): void {
    const { from, views } = entry;
    if (views === undefined) {
      this.#informer?.revise(keyOf(from), (view) => this.#without(view, entry, places));
      return;
    }
    const own = views.length - entry.names.length - places.size;
    entry.views = places.size === 0 ? views : views.filter((_, place) => !places.has(place - own));
    this.sink(entry.object, entry.views);
  }

  /** Returns what is kept of an object that is new or has changed. Undefined: nothing. */
  #enter(view: V): V | undefined {
    const { budget, pick, prefix } = this.#options;
    const { ref: from, created } = view;
    const key = keyOf(from);
    this.#remove(this.#entries, key);
    const names: string[] = [];
    pick(view, (name) => names.push(name) > 0);
    if (names.length === 0) names.push("");
    const entry: Entry = { object: prefix + key, from, created, limit: this, names, isPartial: false };
    const places = budget.enter(entry);
    if (entry.names.length > 0) this.#entries.set(key, entry);
    return this.#without(view, entry, places);
  }

  #without(view: V, entry: Entry, places: ReadonlySet<number>): V | undefined {
    if (places.size === 0) return view;
    if (entry.names.length === 0) return undefined;
    let place = 0;
    return this.#options.pick(view, () => !places.has(place++));
  }

  #remove(entries: Map<string, Entry>, key: string): void {
    const entry = entries.get(key);
    entries.delete(key);
    if (entry !== undefined) this.#options.budget.leave(entry);
  }
}

function keyOf({ namespace, name }: ObjectRef): string {
  return namespace === "" ? name : `${namespace}/${name}`;
}
