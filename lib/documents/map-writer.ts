import type { KubeClient } from "#lib/kube/client.ts";
import { FIELD_MANAGER, NO_VERSION } from "#lib/kube/leader-client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { MAP_NAME, type MapNotes, type MapObject, mapAnnotations, type RenderedMap } from "./map-format.ts";

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
  /** Reads the map from the API server, because the watch may be late. Throws the API server's errors. */
  refresh(): Promise<MapObject | undefined>;
  /**
   * Replaces the whole map. Throws the API server's errors: with status 409 if the map is not `current` any more.
   * A missing map is created, never overwritten. Before `start`, nothing is written.
   */
  write(map: RenderedMap, notes: MapNotes): Promise<void>;
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

  constructor(deps: MapWriterDeps) {
    this.#deps = deps;
  }

  start(onChange: () => void): void {
    const { client, namespace, log } = this.#deps;
    this.#watcher = watchObjects<MapObject, MapObject>({
      client,
      path: corePath("configmaps", namespace),
      fieldSelector: ONLY_MAP,
      project: viewMap,
      onChange,
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
    return this.#watcher?.objects().get(this.#key);
  }

  async refresh(): Promise<MapObject | undefined> {
    const { client, namespace } = this.#deps;
    return await this.#watcher?.request(this.#key, async () => {
      const { items } = await client.list<MapObject>(corePath("configmaps", namespace), { fieldSelector: ONLY_MAP });
      return items[0];
    });
  }

  async write(map: RenderedMap, notes: MapNotes): Promise<void> {
    const { client, namespace, now = Date.now } = this.#deps;
    const path = corePath("configmaps", namespace, MAP_NAME);
    const base = this.current;
    const missing: MapObject["metadata"] = { name: MAP_NAME, namespace, resourceVersion: NO_VERSION };
    const before = base?.metadata ?? missing;
    const annotations = mapAnnotations(map.revision, notes, new Date(now()).toISOString(), before.annotations);
    const object = { apiVersion: "v1", kind: "ConfigMap", metadata: { ...before, annotations }, ...valuesOf(map) };
    const options = { fieldManager: FIELD_MANAGER };
    // An apply creates the object, so that RBAC can limit the right to this name.
    await this.#watcher?.request(this.#key, () =>
      base === undefined
        ? client.apply<MapObject>(path, object, options)
        : client.replace<MapObject>(path, object, options),
    );
  }

  async stop(): Promise<void> {
    await this.#watcher?.stop();
  }

  get #key(): string {
    return `${this.#deps.namespace}/${MAP_NAME}`;
  }
}

/** The map as a write sends it. Without `managedFields`, the API server keeps what it has. */
function viewMap({ metadata, ...values }: MapObject): MapObject {
  return { metadata: { ...metadata, managedFields: undefined } as MapObject["metadata"], ...valuesOf(values) };
}

function valuesOf({ data, binaryData }: Pick<MapObject, "data" | "binaryData">) {
  return { ...(data && { data }), ...(binaryData && { binaryData }) };
}
