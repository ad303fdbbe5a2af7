import { statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { FIELD_MANAGER, NO_VERSION } from "#lib/kube/leader-client.ts";
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

interface RawRecordMap {
  readonly metadata: ObjectMeta;
  readonly data?: Readonly<Record<string, string>> | null;
}

export interface RecordMapDeps {
  /** Writes only while this replica leads. */
  readonly client: KubeClient;
  /** Our own namespace. */
  readonly namespace: string;
}

/** The size of a record: its text, and its key, which is also in `managedFields`. */
export function recordBytes(key: string, text: string): number {
  return Buffer.byteLength(text) + 2 * key.length + 16;
}

/** One ConfigMap of records. Every write is a compare-and-swap with the version that was last read or written. */
export class RecordMap {
  readonly #deps: RecordMapDeps;
  readonly #name: string;
  readonly #path: string;
  #seen: Pick<ObjectMeta, "uid" | "resourceVersion"> | undefined;
  #data: ReadonlyMap<string, string> = new Map();
  #bytes = 0;

  constructor(name: string, deps: RecordMapDeps) {
    this.#deps = deps;
    this.#name = name;
    this.#path = corePath("configmaps", deps.namespace, name);
  }

  /** Record texts by key. */
  get data(): ReadonlyMap<string, string> {
    return this.#data;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Reads the current records. */
  async read(signal: AbortSignal): Promise<void> {
    try {
      this.#update(await this.#deps.client.get<RawRecordMap>(this.#path, {}, { signal }));
    } catch (error) {
      if (statusOf(error) !== 404) throw error;
      this.#update(undefined);
    }
  }

  /** Creates the ConfigMap if it is missing. */
  async create(signal: AbortSignal): Promise<void> {
    if (this.#seen !== undefined) return;
    const { client, namespace } = this.#deps;
    const metadata = { name: this.#name, namespace, resourceVersion: NO_VERSION };
    const object = { apiVersion: "v1", kind: "ConfigMap", metadata };
    this.#update(await client.apply<RawRecordMap>(this.#path, object, { fieldManager: FIELD_MANAGER, signal }));
  }

  /** Writes records, and removes those that are null. Throws if the write is not confirmed. */
  async write(data: Readonly<Record<string, string | null>>, signal: AbortSignal): Promise<void> {
    const { uid, resourceVersion } = this.#seen ?? {};
    const patch = { metadata: { uid, resourceVersion }, data };
    const options = { fieldManager: FIELD_MANAGER, signal };
    this.#update(await this.#deps.client.mergePatch<RawRecordMap>(this.#path, patch, options));
  }

  #update(raw: RawRecordMap | undefined): void {
    this.#seen = raw?.metadata;
    this.#data = new Map(Object.entries(raw?.data ?? {}));
    this.#bytes = 0;
    for (const [key, text] of this.#data) this.#bytes += recordBytes(key, text);
  }
}
