import { SwitchbackError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { NO_VERSION } from "#lib/kube/leader-client.ts";
import { corePath } from "#lib/kube/paths.ts";
import type { ObjectMeta } from "#lib/kube/types.ts";
import { type Informer, type WatchOptions, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";

/** A ConfigMap of our own namespace, as the API server returns it. */
export interface ConfigMap {
  readonly metadata: Pick<ObjectMeta, "name" | "namespace" | "uid" | "resourceVersion"> & {
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly data?: Readonly<Record<string, string>>;
  /** Values in base64. */
  readonly binaryData?: Readonly<Record<string, string>>;
}

/** Rejects if the API server refuses, and throws `data-corrupt` if its answer is something else. */
export async function readConfigMap(
  client: Pick<KubeClient, "get">,
  namespace: string,
  name: string,
): Promise<ConfigMap> {
  const path = corePath("configmaps", namespace, name);
  const object = await client.get<Partial<ConfigMap> | null>(path);
  // Without an installation's documents, it would look as if no pod had its addresses.
  if (object?.metadata?.name !== name)
    throw new SwitchbackError("data-corrupt", `GET ${path}: the response is not the ConfigMap ${name}`);
  return object as ConfigMap;
}

interface ReaderDeps {
  readonly client: Pick<KubeClient, "get" | "stream">;
  /** Our own namespace. */
  readonly namespace: string;
  readonly log: Logger;
}

/** Watches one ConfigMap. A Role that names it is enough. */
export function watchConfigMap<P>(
  name: string,
  { client, namespace, log }: ReaderDeps,
  handlers: Pick<WatchOptions<P, ConfigMap>, "project" | "onChange" | "onSynced">,
): Informer<P> {
  const selection = { path: corePath("configmaps", namespace), fieldSelector: `metadata.name=${name}` };
  return watchObjects<P, ConfigMap>({ client, log, ...selection, ...handlers });
}

export interface WriterDeps extends ReaderDeps {
  /** Writes only while this replica leads. */
  readonly client: KubeClient;
}

/** A ConfigMap that the leader writes and watches. */
export class ConfigMapWriter {
  readonly #name: string;
  readonly #deps: WriterDeps;
  #watcher: Informer<ConfigMap> | undefined;

  constructor(name: string, deps: WriterDeps) {
    this.#name = name;
    this.#deps = deps;
  }

  /** Starts the watch. `onChange` is called after each change, including our own. */
  start(onChange: () => void): void {
    this.#watcher = watchConfigMap<ConfigMap>(this.#name, this.#deps, {
      project: viewConfigMap,
      onChange,
      onSynced: onChange,
    });
  }

  /** False until it is known whether the ConfigMap exists. */
  get synced(): boolean {
    return this.#watcher?.state.synced ?? false;
  }

  /** Milliseconds since the last event or attempt of the watch. */
  get inactiveMs(): number {
    return this.#watcher?.state.inactiveMs ?? 0;
  }

  /** The ConfigMap, as last read or written. Undefined: it is missing. */
  get current(): ConfigMap | undefined {
    return this.#watcher?.objects().get(`${this.#deps.namespace}/${this.#name}`);
  }

  /** The metadata that a write is based on. If the ConfigMap is missing, such a write only creates it. */
  protected get base(): ConfigMap["metadata"] {
    const { namespace } = this.#deps;
    return this.current?.metadata ?? { name: this.#name, namespace, resourceVersion: NO_VERSION };
  }

  /** Reads the ConfigMap from the API server, because the watch may be late. Throws the API server's errors. */
  async refresh(): Promise<ConfigMap | undefined> {
    const fieldSelector = `metadata.name=${this.#name}`;
    const path = corePath("configmaps", this.#deps.namespace);
    return await this.#request(async (client) => (await client.list<ConfigMap>(path, { fieldSelector })).items[0]);
  }

  async stop(): Promise<void> {
    await this.#watcher?.stop();
  }

  /** Sends a write, whose answer counts at once. Before `start`, nothing is sent. Throws the API server's errors. */
  protected async send(write: (client: KubeClient, path: string) => Promise<ConfigMap>): Promise<void> {
    const path = corePath("configmaps", this.#deps.namespace, this.#name);
    await this.#request((client) => write(client, path));
  }

  async #request(send: (client: KubeClient) => Promise<ConfigMap | undefined>): Promise<ConfigMap | undefined> {
    const { namespace, client } = this.#deps;
    return await this.#watcher?.request(`${namespace}/${this.#name}`, () => send(client));
  }
}

/** The ConfigMap as a write sends it. Without `managedFields`, the API server keeps what it has. */
function viewConfigMap({ metadata, data, binaryData }: ConfigMap): ConfigMap {
  return {
    metadata: { ...metadata, managedFields: undefined } as ConfigMap["metadata"],
    ...(data && { data }),
    ...(binaryData && { binaryData }),
  };
}
