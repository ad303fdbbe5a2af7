import { statusOf } from "../errors/errors.ts";
import type { KubeClient } from "../kube/client.ts";
import { corePath } from "../kube/paths.ts";
import { watchObjects } from "../kube/watch.ts";
import type { Logger } from "../observe/log.ts";
import { CA_SECRET, type SecretContent, type SecretName, type SecretStore, TLS_SECRET } from "./store.ts";

/** The object behind a Secret, as far as it is read. */
export interface RawSecret {
  readonly metadata: { readonly name: string; readonly resourceVersion: string };
  readonly type?: string;
  readonly data?: Readonly<Record<string, string>>;
}

const FIELD_MANAGER = "switchback-certs";
/** The type that tools know a serving certificate by; it makes the API server insist on tls.crt and tls.key. */
const TYPES: Readonly<Record<SecretName, string>> = { [CA_SECRET]: "Opaque", [TLS_SECRET]: "kubernetes.io/tls" };

interface KubeSecret extends SecretContent {
  readonly type: string | undefined;
}

/** A Secret's data as text. */
export function textOf(secret: RawSecret): Record<string, string> {
  const entries = Object.entries(secret.data ?? {});
  return Object.fromEntries(entries.map(([key, value]) => [key, Buffer.from(value, "base64").toString("utf8")]));
}

/** The two Secrets of our own namespace, written by server-side apply. */
export class KubeSecretStore implements SecretStore {
  readonly #deps: { readonly client: KubeClient; readonly namespace: string; readonly log: Logger };

  constructor(deps: { readonly client: KubeClient; readonly namespace: string; readonly log: Logger }) {
    this.#deps = deps;
  }

  async read(name: SecretName): Promise<KubeSecret | undefined> {
    try {
      const secret = await this.#deps.client.get<RawSecret>(this.#path(name));
      return { data: textOf(secret), version: secret.metadata.resourceVersion, type: secret.type };
    } catch (error) {
      if (statusOf(error) === 404) return undefined;
      throw error;
    }
  }

  /**
   * With `resourceVersion` in it, an apply is refused (409) when the object has changed, and (404 or 409) when it is gone.
   * Where there was none, two leaders could both create it and the later would win: the state that is lost then has signed
   * nothing yet, and the other leader reads before its next step.
   */
  async write(name: SecretName, data: Readonly<Record<string, string>>, expected: SecretContent | undefined) {
    const { client, namespace } = this.#deps;
    const encoded = Object.entries(data).map(([key, text]) => [key, Buffer.from(text, "utf8").toString("base64")]);
    const object = {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name, namespace, ...(expected && { resourceVersion: expected.version }) },
      // The type cannot change: a Secret that someone made with another one is taken as it is.
      type: (expected as KubeSecret | undefined)?.type ?? TYPES[name],
      data: Object.fromEntries(encoded),
    };
    await client.apply(this.#path(name), object, { fieldManager: FIELD_MANAGER, force: true });
  }

  watch(changed: () => void, signal: AbortSignal): void {
    const { client, log } = this.#deps;
    for (const name of [CA_SECRET, TLS_SECRET]) {
      const watcher = watchObjects<string>({
        client,
        path: this.#path(),
        fieldSelector: `metadata.name=${name}`,
        // Only the fact of a change counts: no key is kept in memory.
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
