import { randomUUID } from "node:crypto";
import { CONFIRM_KEY, HOLD_KEY, TERM_KEY } from "#hostmap/metadata-keys.ts";
import { statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { NO_VERSION } from "#lib/kube/fence.ts";
import { isNewer } from "#lib/kube/future-version.ts";
import { corePath } from "#lib/kube/paths.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import {
  COMPACT_INDEX_NAME,
  INDEX_KEY,
  INDEX_NAME,
  isShardName,
  isSuperseded,
  MAP_LABELS,
  MAP_SELECTOR,
  type MapConfigMap,
  SHARD_KEY,
  SUPERSEDED_LABELS,
} from "./map-format.ts";
import type { MapStore, PublishedIndex } from "./map-store.ts";

const FIELD_MANAGER = "switchback-controller";
/** The precondition of a creation. A POST would have it too, but RBAC cannot restrict that to names. */
const ABSENT = { resourceVersion: NO_VERSION };

/** What a write contains besides its name. */
interface Content {
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly data: Readonly<Record<string, string>>;
}

/** The map in ConfigMaps of our own namespace, written by server-side apply. */
export class KubeMapStore implements MapStore {
  readonly #deps: { readonly client: KubeClient; readonly namespace: string; readonly log: Logger };
  #watcher: Informer<MapConfigMap> | undefined;
  /** By ConfigMap name: as the watch last reported it. */
  readonly #watched = new Map<string, MapConfigMap>();
  /** Our own writes that the watch has not reported yet. */
  readonly #written = new Map<string, { readonly object: MapConfigMap; readonly deleted: boolean }>();
  #term = "";

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

  index(): PublishedIndex | undefined {
    const object = this.#at(INDEX_NAME);
    const text = object?.data?.[INDEX_KEY];
    if (object === undefined || text === undefined) return undefined;
    const { annotations = {} } = object.metadata;
    const of = { hold: annotations[HOLD_KEY], confirmed: annotations[CONFIRM_KEY] };
    return { text, superseded: isSuperseded(object), ...of };
  }

  compactIndex(): string | undefined {
    return this.#at(COMPACT_INDEX_NAME)?.data?.[INDEX_KEY];
  }

  shard(name: string): string | undefined {
    return this.#at(name)?.data?.[SHARD_KEY];
  }

  shardNames(): readonly string[] {
    const names = new Set([...this.#watched.keys(), ...this.#written.keys()]);
    return [...names].filter((name) => isShardName(name) && this.#at(name) !== undefined);
  }

  beginTerm(): void {
    this.#term = randomUUID().slice(0, 8);
  }

  async writeShard(name: string, text: string): Promise<void> {
    await this.#apply(name, { data: { [SHARD_KEY]: text } });
  }

  async writeCompactIndex(text: string): Promise<void> {
    await this.#apply(COMPACT_INDEX_NAME, { annotations: { [TERM_KEY]: this.#term }, data: { [INDEX_KEY]: text } });
  }

  async writeIndex(text: string, hold: string | undefined, superseded: boolean): Promise<void> {
    const annotations = { [TERM_KEY]: this.#term, ...(hold === undefined ? {} : { [HOLD_KEY]: hold }) };
    const labels = superseded ? SUPERSEDED_LABELS : {};
    await this.#apply(INDEX_NAME, { labels, annotations, data: { [INDEX_KEY]: text } });
  }

  async removeShard(name: string): Promise<void> {
    const object = this.#at(name);
    const { uid, resourceVersion } = object?.metadata ?? {};
    if (object === undefined || uid === undefined || resourceVersion === undefined) return;
    try {
      await this.#deps.client.delete(this.#path(name), { preconditions: { uid, resourceVersion } });
    } catch (error) {
      if (statusOf(error) !== 404) throw this.#refused(name, error);
    }
    // Unless the watch has reported it already.
    if (this.#watched.get(name)?.metadata.uid === uid) this.#written.set(name, { object, deleted: true });
    else this.#written.delete(name);
  }

  async stop(): Promise<void> {
    await this.#watcher?.stop();
  }

  async #apply(name: string, { labels, annotations, data }: Content): Promise<void> {
    const { client, namespace } = this.#deps;
    const { uid, resourceVersion } = this.#at(name)?.metadata ?? {};
    const basis = uid === undefined || resourceVersion === undefined ? ABSENT : { uid, resourceVersion };
    const metadata = {
      name,
      namespace,
      ...basis,
      labels: { ...MAP_LABELS, ...labels },
      annotations: annotations ?? {},
    };
    const object = { apiVersion: "v1", kind: "ConfigMap", metadata, data };
    const options = { fieldManager: FIELD_MANAGER, force: true };
    try {
      const answer = this.#keep(await client.apply<MapConfigMap>(this.#path(name), object, options), data);
      const watched = this.#watched.get(name);
      // The watch may have reported it already.
      if (watched === undefined || isNewer(versionOf(answer), versionOf(watched))) {
        this.#written.set(name, { object: answer, deleted: false });
      }
    } catch (error) {
      throw this.#refused(name, error);
    }
  }

  /** What is there, as far as it is known. */
  #at(name: string): MapConfigMap | undefined {
    const written = this.#written.get(name);
    if (written === undefined) return this.#watched.get(name);
    return written.deleted ? undefined : written.object;
  }

  /** An event may be the echo of an earlier write than our last one. */
  #observe(object: MapConfigMap): void {
    const { name, uid } = object.metadata;
    this.#watched.set(name, object);
    const written = this.#written.get(name);
    if (written === undefined || (written.deleted && written.object.metadata.uid === uid)) return;
    if (!isNewer(versionOf(written.object), versionOf(object))) this.#written.delete(name);
  }

  #observeDeleted({ metadata: { name, uid } }: MapConfigMap): void {
    this.#watched.delete(name);
    // Not what we have created again since.
    if (this.#written.get(name)?.object.metadata.uid === uid) this.#written.delete(name);
  }

  /** A refused write shows that the object is not as we wrote it: the watch knows better, or soon will. */
  #refused(name: string, error: unknown): unknown {
    this.#written.delete(name);
    return error;
  }

  /** What is kept of an object. Equal texts, most often the one just written, are kept in memory once. */
  #keep({ metadata, data = {} }: MapConfigMap, own = this.#at(metadata.name)?.data): MapConfigMap {
    const { name, uid, resourceVersion, labels = {}, annotations = {} } = metadata;
    const same = [INDEX_KEY, SHARD_KEY].every((key) => own?.[key] === data[key]);
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
