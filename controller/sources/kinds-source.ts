import { isDeepStrictEqual } from "node:util";
import { show } from "#hostmap/hostnames.ts";
import { describeError } from "#lib/errors/errors.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import { startPromptTimer, timeSlices } from "#lib/kube/time.ts";
import { FollowedKind, type Kept, type Kind, type SourceDeps } from "./followed-kind.ts";
import type { ApiResource, Source, SourceState, View, ViewSink } from "./types.ts";

/** Returns the claims of an object, given as prefix and key: `HTTPRoute shop/web`. */
export type ClaimsOf<V> = (view: V, object: string) => readonly View[];

interface Rules<V extends Kept> {
  readonly kinds: readonly Kind<V>[];
  /** Prepares the evaluation of objects: `objects` has what is kept of all of them. */
  prepare(objects: ReadonlyMap<string, V>): ClaimsOf<V>;
  /** Whether everything else is known that decides about the claims. Default: yes. */
  readonly isReady?: () => boolean;
}

/** Minimum time between two evaluations of all objects, milliseconds. */
const PAUSE_MS = 100;
/** How often it is checked whether the rest is known that decides about the claims, milliseconds. */
const POLL_MS = 10;
/** Delay after a failed discovery request, unless the next one is due sooner, milliseconds. */
const RETRY_MS = 2_000;

/**
 * Reads objects of some kinds, and turns them into claims. An object that changes is evaluated at once. After a change
 * of a shared object, all of them are evaluated, at most every 100 ms and in slices. Only objects with other claims
 * than before are reported.
 */
export class KindsSource<V extends Kept> implements Source {
  readonly #deps: SourceDeps;
  readonly #rules: Rules<V>;
  readonly #kinds: readonly FollowedKind<V>[];
  /** What is kept of each object, and what was reported, by prefix and key. */
  readonly #objects = new Map<string, V>();
  readonly #reported = new Map<string, readonly View[]>();
  readonly #discovery: Reconciler;
  readonly #evaluation: Reconciler;
  readonly #stopped = new AbortController();
  /** Undefined: all objects are evaluated soon. */
  #claimsOf: ClaimsOf<V> | undefined;
  #sink: ViewSink = () => {};
  #onSynced: (() => void) | undefined;

  constructor(deps: SourceDeps, rules: Rules<V>) {
    this.#deps = deps;
    this.#rules = rules;
    const callbacks = {
      sink: (object: string, views: readonly View[]) => this.#sink(object, views),
      onChange: (kind: Kind<V>, object: string, view: V | undefined) => this.#change(kind, object, view),
      onKnown: () => this.changed(),
    };
    this.#kinds = rules.kinds.map((kind) => new FollowedKind(kind, { ...deps, ...callbacks }));
    this.#discovery = new Reconciler({ reconcile: () => this.#discover(), startTimer: startPromptTimer });
    this.#evaluation = new Reconciler({
      reconcile: () => this.#evaluateAll(),
      pauseMs: () => PAUSE_MS,
      startTimer: startPromptTimer,
    });
  }

  start(sink: ViewSink, onSynced: () => void): void {
    this.#sink = sink;
    this.#onSynced = onSynced;
    this.#discovery.enqueue();
  }

  /** Call this if something else has changed that decides about all claims. */
  changed(): void {
    this.#claimsOf = undefined;
    if (this.#kinds.every(({ wanted, state }) => state.synced || !wanted.isShared)) this.#evaluation.enqueue();
  }

  state(): SourceState[] {
    return this.#kinds.map(({ state }) => state);
  }

  resourceOf(object: string): ApiResource | undefined {
    return this.#kindOf(object)?.resource;
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    await Promise.all([this.#discovery, this.#evaluation, ...this.#kinds].map((part) => part.stop()));
  }

  #kindOf(object: string): FollowedKind<V> | undefined {
    return this.#kinds.find(({ wanted }) => object.startsWith(wanted.prefix));
  }

  async #discover() {
    const found = await Promise.all(this.#kinds.map((kind) => kind.discover(this.#stopped.signal)));
    const everyMs = this.#deps.config.discoverySeconds * 1000;
    return { requeueAfter: found.includes(false) ? Math.min(RETRY_MS, everyMs) : everyMs };
  }

  #change(kind: Kind<V>, object: string, view: V | undefined): void {
    // A Gateway's status counts its routes, so each route changes the object, but no field that matters here.
    const isSame = isDeepStrictEqual(this.#objects.get(object), view);
    if (view === undefined) {
      this.#objects.delete(object);
      if (this.#reported.has(object)) this.#report(object, []);
    } else this.#objects.set(object, view);
    if (kind.isShared && !isSame) this.changed();
    const claimsOf = this.#claimsOf;
    if (claimsOf === undefined) this.#kindOf(object)?.limited(object, this.#reported.get(object) ?? []);
    if (view !== undefined && claimsOf !== undefined)
      this.#safely(object, () => this.#report(object, claimsOf(view, object)));
  }

  async #evaluateAll() {
    if (this.#rules.isReady?.() === false) return { requeueAfter: POLL_MS };
    const slice = timeSlices();
    const claimsOf = this.#rules.prepare(this.#objects);
    this.#claimsOf = claimsOf;
    const news: (readonly [object: string, view: V, claims: readonly View[]])[] = [];
    for (const [object, view] of this.#objects) {
      this.#safely(object, () => {
        const views = claimsOf(view, object);
        if (!isDeepStrictEqual(views, this.#reported.get(object) ?? [])) news.push([object, view, views]);
      });
      await slice();
    }
    // Claims that end together are reported together, so that the removal guard sees all of them at once. A change
    // meanwhile was evaluated at once.
    for (const [object, view, views] of news)
      if (this.#objects.get(object) === view) this.#safely(object, () => this.#report(object, views));
    if (!this.#kinds.every(({ state }) => state.synced)) return undefined;
    this.#onSynced?.();
    this.#onSynced = undefined;
    return undefined;
  }

  #report(object: string, all: readonly View[]): void {
    const views = this.#kindOf(object)?.limited(object, all) ?? all;
    if (isDeepStrictEqual(views, this.#reported.get(object) ?? [])) return;
    if (views.length === 0) this.#reported.delete(object);
    else this.#reported.set(object, views);
    this.#sink(object, views);
  }

  /** An object that cannot be evaluated affects only itself: its earlier claims stay. */
  #safely(object: string, run: () => void): void {
    try {
      run();
    } catch (error) {
      this.#deps.log.error({ code: "object-failed", object: show(object) }, describeError(error));
    }
  }
}
