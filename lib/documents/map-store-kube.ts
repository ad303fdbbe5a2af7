import { CONFIRM_KEY, HOLD_KEY } from "#hostmap/metadata-keys.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { Fence, FencedObject } from "#lib/kube/fence.ts";
import { isNewer } from "#lib/kube/future-version.ts";
import { corePath } from "#lib/kube/paths.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import {
  INDEX_KEY,
  INDEX_NAME,
  isShardName,
  MAP_LABELS,
  MAP_SELECTOR,
  type MapConfigMap,
  SHARD_KEY,
  STATE_KEY,
  STATE_NAME,
} from "./map-format.ts";
import type { MapStore, PublishedState } from "./map-store.ts";

const FIELD_MANAGER = "switchback-controller";
/**
 * The map in ConfigMaps of our own namespace, written by server-side apply. Each write names the version that it
 * replaces (lib/kube/fence.ts).
 */
export class KubeMapStore implements MapStore {
  readonly #deps: { readonly client: KubeClient; readonly namespace: string; readonly log: Logger };
  #watcher: Informer<MapConfigMap> | undefined;
  /** The ConfigMaps as the watch last reported them, by name. */
  readonly #watched = new Map<string, MapConfigMap>();
  /** Our own writes that the watch has not reported yet. */
  readonly #written = new Map<string, { readonly object: MapConfigMap; readonly deleted: boolean }>();
  /** The fence of the term that begins or has begun. */
  #fence: Fence | undefined;

  constructor(deps: { readonly client: KubeClient; readonly namespace: string; readonly log: Logger }) {
    this.#deps = deps;
  }

  start(onChange: () => void): void {
    this.#watcher = watchObjects<MapConfigMap, MapConfigMap>({
      client: this.#deps.client,
      path: this.#path(),
      labelSelector: MAP_SELECTOR,
      project: (raw) => this.#keep(raw),
      onChange: ({ before, after }) => {
        if (after !== undefined) this.#observe(after);
        else if (before !== undefined) this.#observeDeleted(before);
        onChange();
      },
      onSynced: onChange,
      log: this.#deps.log,
    });
  }

  get synced(): boolean {
    return this.#watcher?.state.synced ?? false;
  }

  get inactiveMs(): number {
    return this.#watcher?.state.inactiveMs ?? 0;
  }

  index(): string | undefined {
    return this.#at(INDEX_NAME)?.data?.[INDEX_KEY];
  }

  state(): PublishedState | undefined {
    const { metadata, data } = this.#at(STATE_NAME) ?? {};
    const text = data?.[STATE_KEY];
    if (text === undefined) return undefined;
    return { text, hold: metadata?.annotations?.[HOLD_KEY], confirmed: metadata?.annotations?.[CONFIRM_KEY] };
  }

  shard(name: string): string | undefined {
    return this.#at(name)?.data?.[SHARD_KEY];
  }

  shardNames(): readonly string[] {
    const names = new Set([...this.#watched.keys(), ...this.#written.keys()]);
    return [...names].filter((name) => isShardName(name) && this.#at(name) !== undefined);
  }

  /** Binds the writes of the next term to a fence. Call it before `beginTerm`. */
  fenceBy(fence: Fence): void {
    this.#fence = fence;
  }

  /** Gives the index and the state new versions. Throws the errors of `Fence.take`. */
  async beginTerm(): Promise<void> {
    for (const name of [INDEX_NAME, STATE_NAME]) await this.#term.take(this.#object(name), this.#at(name)?.metadata);
  }

  async writeShard(name: string, text: string): Promise<void> {
    await this.#apply(name, { [SHARD_KEY]: text });
  }

  async writeIndex(text: string): Promise<void> {
    await this.#apply(INDEX_NAME, { [INDEX_KEY]: text });
  }

  async writeState(text: string, hold: string | undefined): Promise<void> {
    await this.#apply(STATE_NAME, { [STATE_KEY]: text }, hold === undefined ? undefined : { [HOLD_KEY]: hold });
  }

  async removeShard(name: string): Promise<void> {
    const object = this.#at(name);
    if (object === undefined) return;
    try {
      await this.#term.remove(this.#object(name), object.metadata);
    } catch (error) {
      throw this.#refused(name, error);
    }
    // Do not record the deletion if the watch has already reported it.
    if (this.#watched.get(name)?.metadata.uid === object.metadata.uid)
      this.#written.set(name, { object, deleted: true });
    else this.#written.delete(name);
  }

  async stop(): Promise<void> {
    await this.#watcher?.stop();
  }

  get #term(): Fence {
    if (this.#fence === undefined) throw new Error("a leader's writes need a fence");
    return this.#fence;
  }

  /**
   * Applies a ConfigMap. Without annotations the field is left out, so that we own none: a touch applies an empty map
   * of annotations, which would be a conflict.
   */
  async #apply(name: string, data: MapConfigMap["data"], annotations?: MapConfigMap["metadata"]["annotations"]) {
    const { apiVersion, kind, namespace, path } = this.#object(name);
    try {
      const written = await this.#term.write<MapConfigMap>(
        this.#object(name),
        this.#at(name)?.metadata,
        (precondition) => {
          const metadata = {
            name,
            namespace,
            ...precondition,
            labels: MAP_LABELS,
            ...(annotations && { annotations }),
          };
          const options = { fieldManager: FIELD_MANAGER, force: true };
          return this.#deps.client.apply(path, { apiVersion, kind, metadata, data }, options);
        },
      );
      const answer = this.#keep(written, data);
      const watched = this.#watched.get(name);
      // The watch may already have reported it.
      if (watched === undefined || isNewer(versionOf(answer), versionOf(watched))) {
        this.#written.set(name, { object: answer, deleted: false });
      }
    } catch (error) {
      throw this.#refused(name, error);
    }
  }

  #object(name: string): FencedObject {
    return { apiVersion: "v1", kind: "ConfigMap", namespace: this.#deps.namespace, name, path: this.#path(name) };
  }

  /** Returns the object as far as it is known. */
  #at(name: string): MapConfigMap | undefined {
    const written = this.#written.get(name);
    if (written === undefined) return this.#watched.get(name);
    return written.deleted ? undefined : written.object;
  }

  /** Stores a reported object. The event may belong to an earlier write than our last one. */
  #observe(object: MapConfigMap): void {
    const { name, uid } = object.metadata;
    this.#watched.set(name, object);
    const written = this.#written.get(name);
    if (written === undefined || (written.deleted && written.object.metadata.uid === uid)) return;
    if (!isNewer(versionOf(written.object), versionOf(object))) this.#written.delete(name);
  }

  #observeDeleted({ metadata: { name, uid } }: MapConfigMap): void {
    this.#watched.delete(name);
    // Keep an object that we have created again since.
    if (this.#written.get(name)?.object.metadata.uid === uid) this.#written.delete(name);
  }

  /** Forgets our write. The refusal shows that the object is different: the watch has a newer version, or will soon. */
  #refused(name: string, error: unknown): unknown {
    this.#written.delete(name);
    return error;
  }

  /** Returns what to store of an object. Equal texts, usually the one just written, are in memory only once. */
  #keep({ metadata, data = {} }: MapConfigMap, own = this.#at(metadata.name)?.data): MapConfigMap {
    const { name, uid, resourceVersion, labels = {}, annotations = {} } = metadata;
    const same = [INDEX_KEY, STATE_KEY, SHARD_KEY].every((key) => own?.[key] === data[key]);
    return {
      metadata: { name, labels, annotations, ...(uid && { uid }), ...(resourceVersion && { resourceVersion }) },
      data: same && own !== undefined ? own : data,
    };
  }

  #path(name?: string): string {
    return corePath("configmaps", this.#deps.namespace, name);
  }
}

function versionOf({ metadata }: MapConfigMap): string {
  return metadata.resourceVersion ?? "";
}
