import { HOLD_KEY } from "#hostmap/metadata-keys.ts";
import type { RemovalHold } from "#hostmap/removal-guard.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { FIELD_MANAGER, NO_VERSION } from "#lib/kube/leader-client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { MAP_NAME, type MapObject, mapAnnotations, type RenderedMap } from "./map-format.ts";

/** Where the leading controller publishes the map, and where it finds the earlier publication. */
export interface MapWriter {
  /** Starts the watch. `onChange` is called after each change, including our own. */
  start(onChange: () => void): void;
  /** False until it is known whether a map is published. */
  readonly synced: boolean;
  /** Milliseconds since the last event or attempt of the watch. Missing if nothing can hang. */
  readonly inactiveMs?: number;
  /** The published map, as last read or written. Undefined: it is missing. */
  readonly current: MapObject | undefined;
  /** Reads `current` from the API server, because the watch may be late. Throws the API server's errors. */
  refresh(): Promise<void>;
  /**
   * Replaces the whole map. Throws the API server's errors: with status 409 if the map is not `current` any more.
   * A missing map is created, never overwritten.
   */
  write(map: RenderedMap, hold: RemovalHold | undefined): Promise<void>;
  stop(): Promise<void>;
}

interface MapWriterDeps {
  /** Writes only while this replica leads. */
  readonly client: KubeClient;
  /** Our own namespace. */
  readonly namespace: string;
  readonly log: Logger;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

const ONLY_MAP = `metadata.name=${MAP_NAME}`;

/** The map in the API server. */
export class KubeMapWriter implements MapWriter {
  readonly #deps: MapWriterDeps;
  #watcher: Informer<MapObject> | undefined;
  #current: MapObject | undefined;

  constructor(deps: MapWriterDeps) {
    this.#deps = deps;
  }

  start(onChange: () => void): void {
    const { client, namespace, log } = this.#deps;
    this.#watcher = watchObjects<MapObject, MapObject>({
      client,
      path: corePath("configmaps", namespace),
      fieldSelector: ONLY_MAP,
      project: (raw) => this.#viewOf(raw),
      onChange: ({ after }) => {
        this.#current = after;
        onChange();
      },
      onSynced: onChange,
      log,
    });
  }

  get synced(): boolean {
    return this.#watcher?.state.synced ?? false;
  }

  get inactiveMs(): number {
    return this.#watcher?.state.inactiveMs ?? 0;
  }

  get current(): MapObject | undefined {
    return this.#current;
  }

  async refresh(): Promise<void> {
    const { client, namespace } = this.#deps;
    const { items } = await client.list<MapObject>(corePath("configmaps", namespace), { fieldSelector: ONLY_MAP });
    this.#current = items[0] && this.#viewOf(items[0]);
  }

  async write(map: RenderedMap, hold: RemovalHold | undefined): Promise<void> {
    const { client, namespace, now = Date.now } = this.#deps;
    const path = corePath("configmaps", namespace, MAP_NAME);
    const base = this.#current;
    const missing: MapObject["metadata"] = { name: MAP_NAME, namespace, resourceVersion: NO_VERSION };
    const before = base?.metadata ?? missing;
    const annotations = mapAnnotations(map.revision, hold, new Date(now()).toISOString());
    const metadata = { ...before, annotations: { ...others(before.annotations), ...annotations } };
    const values = valuesOf(map);
    const object = { apiVersion: "v1", kind: "ConfigMap", metadata, ...values };
    const options = { fieldManager: FIELD_MANAGER };
    // An apply creates the object, so that RBAC can limit the right to this name.
    const written = await (base === undefined
      ? client.apply<MapObject>(path, object, options)
      : client.replace<MapObject>(path, object, options));
    // Once the watch has another version, it shows this write or a later one. The answer may be older than that.
    if (this.#current === base) this.#current = { metadata: metadataOf(written), ...values };
  }

  async stop(): Promise<void> {
    await this.#watcher?.stop();
  }

  /** Returns the current object if the raw one is the same version, so that its text is in memory only once. */
  #viewOf(raw: MapObject): MapObject {
    const { uid, resourceVersion } = raw.metadata;
    const current = this.#current;
    if (current?.metadata.uid === uid && current?.metadata.resourceVersion === resourceVersion && current)
      return current;
    return { metadata: metadataOf(raw), ...valuesOf(raw) };
  }
}

/** The metadata as a write sends them. Without `managedFields`, the API server keeps what it has. */
function metadataOf({ metadata }: MapObject): MapObject["metadata"] {
  return { ...metadata, managedFields: undefined } as MapObject["metadata"];
}

function valuesOf({ data, binaryData }: Pick<MapObject, "data" | "binaryData">) {
  return { ...(data && { data }), ...(binaryData && { binaryData }) };
}

/** The annotations without those that only some publications have. */
function others(annotations: MapObject["metadata"]["annotations"] = {}): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(annotations).filter(([key]) => key !== HOLD_KEY));
}
