import { ifFound } from "#lib/errors/errors.ts";
import { printable } from "#lib/errors/printable.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import type { ObjectMeta } from "#lib/kube/types.ts";

/** A record of the API server: which manager wrote which fields last. */
interface ManagedFields {
  readonly manager?: string;
  readonly time?: string;
  readonly fieldsV1?: Readonly<Record<string, unknown>>;
}

interface RawConfigMap {
  readonly metadata: ObjectMeta & { readonly managedFields?: readonly ManagedFields[] };
  readonly data?: Readonly<Record<string, string>>;
  readonly binaryData?: Readonly<Record<string, string>>;
}

/** A ConfigMap that was read. */
export interface ReadConfigMap {
  readonly data: Readonly<Record<string, string>>;
  readonly metadata: RawConfigMap["metadata"];
  /** Approximate size of its keys and values, in bytes. */
  readonly bytes: number;
}

export type ConfigMapClient = Pick<KubeClient, "get" | "create" | "mergePatch" | "delete">;

const FIELD_MANAGER = "switchback-publisher";
/** Marks a ConfigMap that a publisher created. It is deleted as a whole if our key was its only one. */
const CREATED_ANNOTATION = "switchback.dev/created-by-publisher";

/**
 * One key of a ConfigMap that may belong to somebody else. Every write names the version that it replaces, and
 * changes only this key.
 */
export class ConfigMapKey {
  readonly #client: ConfigMapClient;
  readonly namespace: string;
  readonly name: string;
  readonly key: string;

  constructor(client: ConfigMapClient, { namespace, name, key }: { namespace: string; name: string; key: string }) {
    this.#client = client;
    this.namespace = namespace;
    this.name = name;
    this.key = key;
  }

  get place(): string {
    return `key ${this.key} of the ConfigMap ${this.namespace}/${this.name}`;
  }

  /** Undefined if the ConfigMap does not exist. Rejects as the client does. */
  async read(): Promise<ReadConfigMap | undefined> {
    const found = await ifFound(this.#client.get<RawConfigMap>(this.#path));
    if (found === undefined) return undefined;
    const { metadata, data = {}, binaryData = {} } = found;
    const values = [...Object.entries(data), ...Object.entries(binaryData)];
    const bytes = values.reduce((sum, [key, text]) => sum + key.length + Buffer.byteLength(text), 0);
    return { data, metadata, bytes };
  }

  /** Sets the key; null removes it. Rejects with status 409 if the ConfigMap has changed since it was read. */
  async set({ metadata }: ReadConfigMap, text: string | null): Promise<void> {
    const { resourceVersion } = metadata;
    const patch = { metadata: { resourceVersion }, data: { [this.key]: text } };
    await this.#client.mergePatch(this.#path, patch, { fieldManager: FIELD_MANAGER });
  }

  /** Creates the ConfigMap with only this key. Rejects with status 409 if it exists. */
  async create(text: string): Promise<void> {
    const { namespace, name } = this;
    const metadata = { namespace, name, annotations: { [CREATED_ANNOTATION]: "true" } };
    const object = { apiVersion: "v1", kind: "ConfigMap", metadata, data: { [this.key]: text } };
    await this.#client.create(corePath("configmaps", namespace), object, { fieldManager: FIELD_MANAGER });
  }

  /** Removes the key. Deletes the whole ConfigMap if a publisher created it and it has no other key. */
  async unset(read: ReadConfigMap): Promise<void> {
    const { metadata, data } = read;
    const isOurs = metadata.annotations?.[CREATED_ANNOTATION] === "true";
    if (isOurs && Object.keys(data).every((key) => key === this.key)) {
      const { uid, resourceVersion } = metadata;
      const preconditions = { ...(uid && { uid }), ...(resourceVersion && { resourceVersion }) };
      await this.#client.delete(this.#path, { preconditions });
    } else if (data[this.key] !== undefined) await this.set(read, null);
  }

  /**
   * Removes our entries from the managed fields. Otherwise the API server would refuse if somebody else applied the
   * object with another value (server-side apply).
   */
  async disown(): Promise<void> {
    const read = await this.read();
    const fields = read?.metadata.managedFields;
    const others = fields?.filter(({ manager }) => manager !== FIELD_MANAGER);
    if (fields === undefined || others === undefined || others.length === fields.length) return;
    const { resourceVersion } = read?.metadata ?? {};
    // The server would fill an empty list again.
    const managedFields = others.length === 0 ? [{}] : others;
    await this.#client.mergePatch(this.#path, { metadata: { resourceVersion, managedFields } });
  }

  get #path(): string {
    return corePath("configmaps", this.namespace, this.name);
  }
}

/**
 * The manager that last wrote a key of a ConfigMap. If the key is gone, the one that last changed the ConfigMap's
 * data. Undefined if that is not known, or if it was us.
 */
export function lastWriter({ metadata }: ReadConfigMap, key: string): string | undefined {
  const others = (metadata.managedFields ?? []).filter(({ manager }) => manager !== FIELD_MANAGER);
  const ofData = others.filter(({ fieldsV1 }) => fieldsV1?.["f:data"] !== undefined);
  const ofKey = ofData.filter(({ fieldsV1 }) => Object.hasOwn(fieldsV1?.["f:data"] ?? {}, `f:${key}`));
  const candidates = ofKey.length > 0 ? ofKey : ofData;
  const { manager } = candidates.toSorted((a, b) => (b.time ?? "").localeCompare(a.time ?? ""))[0] ?? {};
  return manager === undefined ? undefined : printable(manager).slice(0, 100);
}
