import type { KubeClient } from "#lib/kube/client.ts";
import { type Fence, type FencedObject, type Identity, identityOf, type Precondition } from "#lib/kube/fence.ts";
import { corePath } from "#lib/kube/paths.ts";
import type { ObjectMeta } from "#lib/kube/types.ts";

/** The first ConfigMap of records. */
export const RECORDS_NAME = "switchback-restarts";
/** The ConfigMaps of records, in the order in which they are filled. */
export const RECORD_MAPS: readonly string[] = [
  RECORDS_NAME,
  ...Array.from({ length: 15 }, (_, index) => `${RECORDS_NAME}-${index + 1}`),
];
/**
 * Maximum bytes of a ConfigMap of records, as `recordBytes` counts them. The API server accepts 1 MiB of data
 * (`core.MaxSecretSize`), and etcd 1.5 MiB in total (`--max-request-bytes`). New records fill a ConfigMap only up to
 * `FULL_MAP_BYTES`. The rest is for records that grow.
 */
export const MAX_MAP_BYTES = 900_000;
export const FULL_MAP_BYTES = 800_000;
const FIELD_MANAGER = "switchback-controller";

interface RawRecordMap {
  readonly metadata: ObjectMeta;
  readonly data?: Readonly<Record<string, string>> | null;
}

export interface RecordMapDeps {
  readonly client: KubeClient;
  /** Our own namespace. */
  readonly namespace: string;
  /** The fence of the leader's term. */
  readonly fence: Fence;
}

/** The size of a record: its text, and its key, which is also in `managedFields`. */
export function recordBytes(key: string, text: string): number {
  return Buffer.byteLength(text) + 2 * key.length + 16;
}

/** One ConfigMap of records. Every write is a compare-and-swap with the version that this term last read or wrote. */
export class RecordMap {
  readonly #deps: RecordMapDeps;
  readonly #object: FencedObject;
  #seen: Identity | undefined;
  #data: ReadonlyMap<string, string> = new Map();
  #bytes = 0;

  constructor(name: string, deps: RecordMapDeps) {
    const { namespace } = deps;
    this.#deps = deps;
    this.#object = {
      apiVersion: "v1",
      kind: "ConfigMap",
      namespace,
      name,
      path: corePath("configmaps", namespace, name),
    };
  }

  /** Record texts by key. */
  get data(): ReadonlyMap<string, string> {
    return this.#data;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Reads the current records. Throws as `Fence.read` does. */
  async read(signal: AbortSignal): Promise<void> {
    const { client, fence } = this.#deps;
    this.#update(await fence.read(this.#object, () => client.get<RawRecordMap>(this.#object.path, {}, { signal })));
  }

  /** Creates the ConfigMap if it is missing. */
  async create(signal: AbortSignal): Promise<void> {
    if (this.#seen !== undefined) return;
    const { client, fence, namespace } = this.#deps;
    const { name, path } = this.#object;
    const send = (precondition: Precondition) => {
      const object = { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace, ...precondition } };
      return client.apply<RawRecordMap>(path, object, { fieldManager: FIELD_MANAGER, signal });
    };
    this.#update(await fence.write(this.#object, undefined, send));
  }

  /** Writes records, and removes those that are null. Throws if the write is not confirmed. */
  async write(data: Readonly<Record<string, string | null>>, signal: AbortSignal): Promise<void> {
    const { client, fence } = this.#deps;
    const send = (metadata: Precondition) =>
      client.mergePatch<RawRecordMap>(this.#object.path, { metadata, data }, { fieldManager: FIELD_MANAGER, signal });
    this.#update(await fence.write(this.#object, this.#seen, send));
  }

  #update(raw: RawRecordMap | undefined): void {
    this.#seen = raw && identityOf(raw.metadata);
    this.#data = new Map(Object.entries(raw?.data ?? {}));
    this.#bytes = 0;
    for (const [key, text] of this.#data) this.#bytes += recordBytes(key, text);
  }
}
