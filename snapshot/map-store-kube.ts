import { statusOf } from "../errors/errors.ts";
import { CONFIRM_KEY, HOLD_KEY, REVISION_KEY } from "../hostmap/metadata-keys.ts";
import type { KubeClient } from "../kube/client.ts";
import { corePath } from "../kube/paths.ts";
import { type Informer, watchObjects } from "../kube/watch.ts";
import type { Logger } from "../telemetry/log.ts";
import {
  INDEX_KEY,
  INDEX_NAME,
  isShardName,
  MAP_LABELS,
  MAP_SELECTOR,
  type MapConfigMap,
  SHARD_KEY,
} from "./map-format.ts";
import type { MapStore, PublishedIndex } from "./map-store.ts";

const FIELD_MANAGER = "switchback-controller";

/** The map in ConfigMaps of our own namespace, written by server-side apply. */
export class KubeMapStore implements MapStore {
  readonly #deps: { readonly client: KubeClient; readonly namespace: string; readonly log: Logger };
  #watcher: Informer<MapConfigMap> | undefined;
  /** By ConfigMap name. Our own writes are entered when the API server has answered, before the watch reports them. */
  readonly #seen = new Map<string, MapConfigMap>();

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
        if (after !== undefined) this.#seen.set(after.metadata.name, after);
        else if (before !== undefined) this.#seen.delete(before.metadata.name);
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
    const object = this.#seen.get(INDEX_NAME);
    const text = object?.data?.[INDEX_KEY];
    if (object === undefined || text === undefined) return undefined;
    const annotations = object.metadata.annotations ?? {};
    return { text, hold: annotations[HOLD_KEY], confirmed: annotations[CONFIRM_KEY] };
  }

  shard(name: string): string | undefined {
    return this.#seen.get(name)?.data?.[SHARD_KEY];
  }

  shardNames(): readonly string[] {
    return [...this.#seen.keys()].filter(isShardName);
  }

  async writeShard(name: string, text: string, shardHash: string): Promise<void> {
    await this.#apply(name, { [REVISION_KEY]: shardHash }, { [SHARD_KEY]: text });
  }

  async writeIndex(text: string, hold: string | undefined): Promise<void> {
    await this.#apply(INDEX_NAME, hold === undefined ? {} : { [HOLD_KEY]: hold }, { [INDEX_KEY]: text });
  }

  async removeShard(name: string): Promise<void> {
    try {
      await this.#deps.client.delete(this.#path(name));
    } catch (error) {
      if (statusOf(error) !== 404) throw error;
    }
    this.#seen.delete(name);
  }

  async stop(): Promise<void> {
    await this.#watcher?.stop();
  }

  async #apply(name: string, annotations: Record<string, string>, data: Record<string, string>): Promise<void> {
    const { client, namespace } = this.#deps;
    const metadata = { name, namespace, labels: MAP_LABELS, annotations };
    const object = { apiVersion: "v1", kind: "ConfigMap", metadata, data };
    const written = await client.apply<MapConfigMap>(this.#path(name), object, {
      fieldManager: FIELD_MANAGER,
      force: true,
    });
    this.#seen.set(name, this.#keep(written, data));
  }

  /** What is kept of an object. Equal texts, most often the one just written, are kept in memory once. */
  #keep({ metadata, data = {} }: MapConfigMap, own = this.#seen.get(metadata.name)?.data): MapConfigMap {
    const same = [INDEX_KEY, SHARD_KEY].every((key) => own?.[key] === data[key]);
    return {
      metadata: { name: metadata.name, annotations: metadata.annotations ?? {} },
      data: same && own !== undefined ? own : data,
    };
  }

  #path(name?: string): string {
    return corePath("configmaps", this.#deps.namespace, name);
  }
}
