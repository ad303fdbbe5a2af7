import { isDeepStrictEqual } from "node:util";
import { show } from "#hostmap/hostnames.ts";
import { describeError } from "#lib/errors/errors.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import { startPromptTimer, timeSlices } from "#lib/kube/time.ts";
import type { Kept } from "./kind-limit.ts";
import { type KindsDeps, type OptionalKind, OptionalKinds } from "./optional-kinds.ts";
import type { Source, View } from "./types.ts";

/** Minimum time between two evaluations, milliseconds. */
const PAUSE_MS = 100;
/** How often it is checked whether the rest is known that decides about the claims, milliseconds. */
const POLL_MS = 10;

/** Each object, by kind and key (`HTTPRoute shop/web`), with the function that returns its claims. */
export type GraphClaims = Iterable<readonly [object: string, claims: () => readonly View[]]>;

interface Graph<V extends Kept> {
  /** The prefix of each kind is its name and a blank. */
  readonly kinds: readonly OptionalKind<V>[];
  /** Prepares one evaluation. `objects` has what is kept of each object, by kind and key. */
  claimsOf(objects: ReadonlyMap<string, V>): GraphClaims;
  /** Whether everything else is known that decides about the claims. Default: yes. */
  readonly isReady?: () => boolean;
}

/**
 * A source whose objects decide about each other's claims. After a change, all of them are evaluated, at most every
 * 100 ms and in slices, and only objects with other claims than before are reported. `changed` is to be called if
 * something else has changed that decides about the claims.
 */
export function graphSource<V extends Kept>(deps: KindsDeps, graph: Graph<V>): Source & { changed(): void } {
  const objects = new Map<string, V>();
  const kinds = new OptionalKinds<V>(deps, graph.kinds);
  /** By object. */
  const before = new Map<string, readonly View[]>();
  let onSynced: (() => void) | undefined;
  let isOpen = false;
  const evaluator = new Reconciler({
    reconcile: async () => {
      if (graph.isReady?.() === false) return { requeueAfter: POLL_MS };
      const slice = timeSlices();
      for (const [object, claims] of graph.claimsOf(objects)) {
        if (objects.has(object)) evaluate(object, claims);
        const ended = slice();
        if (ended !== undefined) await ended;
      }
      onSynced?.();
      onSynced = undefined;
      return undefined;
    },
    pauseMs: () => PAUSE_MS,
    startTimer: startPromptTimer,
  });
  const changed = () => {
    if (isOpen) evaluator.enqueue();
  };

  /** An object that cannot be evaluated affects only itself: its earlier claims stay. */
  function evaluate(object: string, claims: () => readonly View[]): void {
    try {
      const views = claims();
      if (isSame(views, before.get(object))) return;
      if (views.length === 0) before.delete(object);
      else before.set(object, views);
      kinds.report(object, views);
    } catch (error) {
      deps.log.error({ code: "object-failed", object: show(object) }, describeError(error));
    }
  }

  return {
    start(sink, synced) {
      onSynced = synced;
      kinds.start({
        sink,
        onChange: (object, value) => {
          // A Gateway's status counts its routes, so each route changes the object, but no field that matters here.
          if (isDeepStrictEqual(objects.get(object), value)) return;
          if (value !== undefined) objects.set(object, value);
          else {
            objects.delete(object);
            evaluate(object, () => []);
          }
          changed();
        },
        onKnown: () => {
          isOpen = true;
          changed();
        },
        reevaluate: (namespace) => {
          for (const [object, [view]] of before) if (view?.from.namespace === namespace) before.delete(object);
          changed();
        },
      });
    },
    changed,
    state: () => kinds.state(),
    resourceOf: (object) => kinds.resourceOf(object),
    stop: async () => {
      await Promise.all([evaluator.stop(), kinds.stop()]);
    },
  };
}

function isSame(views: readonly View[], before: readonly View[] = []): boolean {
  return (
    views.length === before.length &&
    views.every((view, index) => {
      const { hostname, created, hints } = before[index] ?? view;
      if (view.hostname !== hostname || view.created !== created) return false;
      return view.hints === hints || isDeepStrictEqual(view.hints, hints);
    })
  );
}
