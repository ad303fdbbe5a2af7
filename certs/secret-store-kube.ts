import { statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { NO_VERSION } from "#lib/kube/leader-client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { CA_SECRET, type SecretContent, type SecretName, type SecretStore, TLS_SECRET } from "./secret-store.ts";

/** The fields of a Secret that are read. */
export interface RawSecret {
  readonly metadata: { readonly name: string; readonly resourceVersion: string };
  readonly type?: string;
  readonly data?: Readonly<Record<string, string>>;
}

const FIELD_MANAGER = "switchback-certs";
/** Tools recognize a serving certificate by its type, and the API server requires tls.crt and tls.key for it. */
const TYPES: Readonly<Record<SecretName, string>> = { [CA_SECRET]: "Opaque", [TLS_SECRET]: "kubernetes.io/tls" };

/** A Secret's data as text. */
export function secretTextOf(secret: RawSecret): Record<string, string> {
  const entries = Object.entries(secret.data ?? {});
  return Object.fromEntries(entries.map(([key, value]) => [key, Buffer.from(value, "base64").toString("utf8")]));
}

function encoded(data: Readonly<Record<string, string>>): Record<string, string> {
  const entries = Object.entries(data);
  return Object.fromEntries(entries.map(([key, text]) => [key, Buffer.from(text, "utf8").toString("base64")]));
}

interface SecretStoreDeps {
  /** Writes only while this replica leads. */
  readonly client: KubeClient;
  readonly namespace: string;
  readonly log: Logger;
}

/** The two Secrets, in Switchback's own namespace. */
export class KubeSecretStore implements SecretStore {
  readonly #deps: SecretStoreDeps;

  constructor(deps: SecretStoreDeps) {
    this.#deps = deps;
  }

  async read(name: SecretName): Promise<SecretContent | undefined> {
    try {
      const secret = await this.#deps.client.get<RawSecret>(this.#path(name));
      return { data: secretTextOf(secret), version: secret.metadata.resourceVersion };
    } catch (error) {
      if (statusOf(error) === 404) return undefined;
      throw error;
    }
  }

  /**
   * Creates by server-side apply, so that RBAC can limit the permission to create to the name. Changes by merge patch:
   * an apply keeps a key that another manager has also written (a restored backup), and a step would never complete.
   */
  async write(name: SecretName, data: Readonly<Record<string, string>>, expected: SecretContent | undefined) {
    const { client, namespace } = this.#deps;
    const path = this.#path(name);
    if (expected === undefined) {
      const metadata = { name, namespace, resourceVersion: NO_VERSION };
      const object = { apiVersion: "v1", kind: "Secret", metadata, type: TYPES[name], data: encoded(data) };
      await client.apply(path, object, { fieldManager: FIELD_MANAGER, force: true });
      return;
    }
    const gone = Object.keys(expected.data).filter((key) => !(key in data));
    const change = {
      metadata: { resourceVersion: expected.version },
      data: { ...encoded(data), ...Object.fromEntries(gone.map((key) => [key, null])) },
    };
    await client.mergePatch(path, change, { fieldManager: FIELD_MANAGER });
  }

  watch(changed: () => void, signal: AbortSignal): void {
    const { client, log } = this.#deps;
    for (const name of [CA_SECRET, TLS_SECRET]) {
      const watcher = watchObjects<string>({
        client,
        path: this.#path(),
        fieldSelector: `metadata.name=${name}`,
        // Keeps no key in memory: only the change itself matters.
        project: (raw) => (raw as RawSecret).metadata.resourceVersion,
        onChange: changed,
        onSynced: changed,
        log,
      });
      signal.addEventListener("abort", () => void watcher.stop(), { once: true });
    }
  }

  #path(name?: SecretName): string {
    return corePath("secrets", this.#deps.namespace, name);
  }
}
