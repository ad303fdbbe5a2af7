import type { PublishedMap, Reason } from "#hostmap/types.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import { type StartTimer, startTimer } from "#lib/kube/time.ts";
import { watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { PUBLISHED_MAP, SnapshotAssembler, type SnapshotForm } from "./map-builder.ts";
import { MAP_SELECTOR, type MapConfigMap, textOf } from "./map-format.ts";
import { type HashedShard, isMap } from "./published-map.ts";

/** A reader that follows the published map. M is the form in which it keeps the map. */
export interface MapReader<M = PublishedMap> {
  /**
   * Calls `found` with the map at first and after each change. If the newest map cannot be used, calls it with the
   * Reason.
   */
  start(found: (offer: M | Reason) => void): Subscription;
}

/** A started reader. */
export interface Subscription {
  /** Milliseconds since the last event or attempt of the watch. Missing if nothing can hang. */
  inactiveMs?(): number;
  stop(): Promise<void>;
}

/** The stored part of a ConfigMap. */
interface Part {
  readonly name: string;
  /** Undefined after it has been parsed. */
  text: string | undefined;
}

interface MapReaderDeps {
  readonly client: Pick<KubeClient, "get" | "stream">;
  readonly namespace: string;
  readonly log: Logger;
  readonly startTimer?: StartTimer;
}

/** Follows the map that the controller publishes: ConfigMaps of our own namespace, selected by their label. */
export function kubeMapReader(deps: MapReaderDeps): MapReader {
  return kubeReaderOf(PUBLISHED_MAP, deps);
}

/** Follows the map like `kubeMapReader`, but in another form. */
export function kubeReaderOf<P extends HashedShard, M extends { readonly revision: string }>(
  form: SnapshotForm<P, M>,
  deps: MapReaderDeps,
): MapReader<M> {
  return {
    start(found) {
      const builder = new SnapshotAssembler(form);
      const follower = followMap(builder, found, deps.startTimer);
      const watcher = watchObjects<Part, MapConfigMap>({
        client: deps.client,
        path: corePath("configmaps", deps.namespace),
        labelSelector: MAP_SELECTOR,
        project: (object) => ({ name: object.metadata.name, text: textOf(object) }),
        onChange({ before, after }) {
          const name = (after ?? before)?.name;
          if (name !== undefined) builder.put(name, after?.text);
          if (after !== undefined) after.text = undefined;
          follower.changed();
        },
        onSynced: () => follower.synced(),
        log: deps.log,
      });
      return {
        inactiveMs: () => watcher.state.inactiveMs,
        async stop() {
          follower.stop();
          await watcher.stop();
        },
      };
    },
  };
}

/**
 * A publication writes its shards and then the index. If parts do not match for longer than this, that is not just a
 * publication in progress.
 */
export const PATIENCE_MS = 10_000;
/** ConfigMaps that arrive together are processed together. */
export const SETTLE_MS = 5;

const NOT_LISTED: Reason = { code: "map-not-listed", text: "the ConfigMaps of the map have not all been read yet" };

/** Watches the parts of an assembler. */
interface MapFollower {
  /** Call when a part arrived or was deleted. */
  changed(): void;
  /** Call when everything has arrived once. Before that, a missing part means nothing, and an index may be outdated. */
  synced(): void;
  stop(): void;
}

/**
 * Passes every map whose parts match to `found`. If the parts do not match for longer than `PATIENCE_MS`, it passes a
 * Reason. A reader with a good map keeps that map. A reader without one waits, and gets the Reason repeatedly.
 */
export function followMap<M extends { readonly revision: string }>(
  assembler: { build(): M | Reason },
  found: (offer: M | Reason) => void,
  start: StartTimer = startTimer,
): MapFollower {
  let known = false;
  let synced = false;
  let patience: ReturnType<StartTimer> | undefined;

  const waitLonger = (): void => {
    patience ??= start(() => {
      patience = undefined;
      giveUp();
    }, PATIENCE_MS);
  };
  const build = () => (synced ? assembler.build() : NOT_LISTED);
  const giveUp = (): void => {
    if (!known) waitLonger();
    const whole = build();
    if (!isMap(whole)) found(whole);
  };
  const look = (): undefined => {
    const whole = build();
    if (!isMap(whole)) {
      waitLonger();
      return undefined;
    }
    patience?.();
    patience = undefined;
    known = true;
    found(whole);
  };

  const reconciler = new Reconciler({ reconcile: look, startTimer: start });
  waitLonger();
  const changed = (): void => {
    reconciler.enqueue(SETTLE_MS);
  };
  return {
    changed,
    synced() {
      synced = true;
      changed();
    },
    stop() {
      void reconciler.stop();
      patience?.();
    },
  };
}
