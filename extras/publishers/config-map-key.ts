import { statusOf } from "#lib/errors/errors.ts";
import { printable } from "#lib/errors/printable.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import type { ObjectMeta } from "#lib/kube/types.ts";

/** Who last wrote which fields, as the API server keeps it. */
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

/** A ConfigMap as it was read. */
export interface ReadConfigMap {
  readonly data: Readonly<Record<string, string>>;
  readonly metadata: RawConfigMap["metadata"];
  /** About the bytes of the values that are in it. */
  readonly bytes: number;
}

export type ConfigMapClient = Pick<KubeClient, "get" | "create" | "mergePatch" | "delete">;

const FIELD_MANAGER = "switchback-publisher";
/** On a ConfigMap that did not exist before: with our key it goes as a whole. */
const CREATED_ANNOTATION = "switchback.dev/created-by-publisher";

/**
 * One key of a ConfigMap that may be somebody else's. Every write names the version that it replaces, and changes
 * nothing but the key.
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

  /** Undefined: there is no such ConfigMap. Rejects as the client does. */
  async read(): Promise<ReadConfigMap | undefined> {
    try {
      const { metadata, data = {}, binaryData = {} } = await this.#client.get<RawConfigMap>(this.#path);
      const values = [...Object.entries(data), ...Object.entries(binaryData)];
      const bytes = values.reduce((sum, [key, text]) => sum + key.length + Buffer.byteLength(text), 0);
      return { data, metadata, bytes };
    } catch (error) {
      if (statusOf(error) === 404) return undefined;
      throw error;
    }
  }

  /** Sets the key of the ConfigMap as it was read; null removes it. Rejects with status 409 if somebody was faster. */
  async set({ metadata }: ReadConfigMap, text: string | null): Promise<void> {
    const { resourceVersion } = metadata;
    const patch = { metadata: { resourceVersion }, data: { [this.key]: text } };
    await this.#client.mergePatch(this.#path, patch, { fieldManager: FIELD_MANAGER });
  }

  /** Creates the ConfigMap with this key alone. Rejects with status 409 if it exists. */
  async create(text: string): Promise<void> {
    const { namespace, name } = this;
    const metadata = { namespace, name, annotations: { [CREATED_ANNOTATION]: "true" } };
    const object = { apiVersion: "v1", kind: "ConfigMap", metadata, data: { [this.key]: text } };
    await this.#client.create(corePath("configmaps", namespace), object, { fieldManager: FIELD_MANAGER });
  }

  /** Removes the key, and the ConfigMap with it if it was created for it and has no other. */
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
   * Gives up what the API server has noted as ours: who applies the object again with another value would be
   * refused otherwise (server-side apply).
   */
  async disown(): Promise<void> {
    const read = await this.read();
    const fields = read?.metadata.managedFields;
    const others = fields?.filter(({ manager }) => manager !== FIELD_MANAGER);
    if (fields === undefined || others === undefined || others.length === fields.length) return;
    const { resourceVersion } = read?.metadata ?? {};
    // An empty list would be one that the server fills again.
    const managedFields = others.length === 0 ? [{}] : others;
    await this.#client.mergePatch(this.#path, { metadata: { resourceVersion, managedFields } });
  }

  get #path(): string {
    return corePath("configmaps", this.namespace, this.name);
  }
}

/**
 * Who has set a key of a ConfigMap to what it is, or if that is gone changed the ConfigMap's data last; undefined:
 * not known, or us.
 */
export function lastWriter({ metadata }: ReadConfigMap, key: string): string | undefined {
  const others = (metadata.managedFields ?? []).filter(({ manager }) => manager !== FIELD_MANAGER);
  const ofData = others.filter(({ fieldsV1 }) => fieldsV1?.["f:data"] !== undefined);
  const ofKey = ofData.filter(({ fieldsV1 }) => Object.hasOwn(fieldsV1?.["f:data"] ?? {}, `f:${key}`));
  const candidates = ofKey.length > 0 ? ofKey : ofData;
  const { manager } = candidates.toSorted((a, b) => (b.time ?? "").localeCompare(a.time ?? ""))[0] ?? {};
  return manager === undefined ? undefined : printable(manager).slice(0, 100);
}
