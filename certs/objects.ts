import { ifFound } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { NO_VERSION } from "#lib/kube/leader-client.ts";
import { corePath, resourcePath } from "#lib/kube/paths.ts";
import type { JsonPatchOperation } from "#lib/kube/types.ts";
import { watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";

/** The key and certificate of the CA that signs. Only the leader reads it. */
export const CA_SECRET = "switchback-ca";
/** What the webhook serves: `tls.crt`, `tls.key`, and in `ca.crt` the CAs that were trusted when it was issued. */
export const TLS_SECRET = "switchback-webhook-tls";
/** The webhook configuration whose `caBundle` fields Switchback maintains. */
export const WEBHOOK_CONFIGURATION = "switchback-webhook";

export type SecretName = typeof CA_SECRET | typeof TLS_SECRET;

/** A Secret's data as text. `version` is the resourceVersion. */
export interface SecretContent {
  readonly data: Readonly<Record<string, string>>;
  readonly version: string;
}

/** The caBundle of each webhook entry in order, as PEM text or "". */
export interface BundleView {
  readonly bundles: readonly string[];
  readonly version: string;
}

/** The fields of a Secret that are read. */
export interface RawSecret {
  readonly metadata: { readonly name: string; readonly resourceVersion: string };
  readonly data?: Readonly<Record<string, string>>;
}

interface RawConfiguration {
  readonly metadata: { readonly resourceVersion: string };
  readonly webhooks?: readonly { readonly clientConfig?: { readonly caBundle?: string } }[];
}

/** Tools recognize a serving certificate by its type, and the API server requires tls.crt and tls.key for it. */
const TYPES: Readonly<Record<SecretName, string>> = { [CA_SECRET]: "Opaque", [TLS_SECRET]: "kubernetes.io/tls" };
const SECRETS_MANAGER = "switchback-certs";
/** Separate, so that `kubectl get --show-managed-fields` shows which component maintains the field. */
const BUNDLE_MANAGER = "switchback-cabundle";
const KIND = { group: "admissionregistration.k8s.io", version: "v1", resource: "mutatingwebhookconfigurations" };
/** API path of the webhook configuration. */
export const CONFIGURATION_PATH = resourcePath({ ...KIND, name: WEBHOOK_CONFIGURATION });

const decoded = (base64: string) => Buffer.from(base64, "base64").toString("utf8");
const encoded = (text: string) => Buffer.from(text, "utf8").toString("base64");

/** A Secret's data as text. */
export function secretTextOf({ data = {} }: RawSecret): Record<string, string> {
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, decoded(value)]));
}

/**
 * The three objects of a leader, with the Secrets in its own namespace. A read returns undefined if the object does
 * not exist. A write throws `kube-status` 409, 404 or 422 if somebody has changed or deleted the object since the
 * read. After `signal` aborts, watches end and a write throws.
 */
export function certObjects(client: KubeClient, namespace: string, signal: AbortSignal) {
  const secretPath = (name?: SecretName) => corePath("secrets", namespace, name);

  /** The version makes the patch fail (409) if anything has changed, so that positions in lists are still correct. */
  const patch = async (path: string, version: string, fieldManager: string, operations: JsonPatchOperation[]) => {
    signal.throwIfAborted();
    const check: JsonPatchOperation = { op: "replace", path: "/metadata/resourceVersion", value: version };
    await client.jsonPatch(path, [check, ...operations], { fieldManager });
  };

  return {
    async readSecret(name: SecretName): Promise<SecretContent | undefined> {
      const found = await ifFound(client.get<RawSecret>(secretPath(name)));
      return found && { data: secretTextOf(found), version: found.metadata.resourceVersion };
    },

    async readBundle(): Promise<BundleView | undefined> {
      const found = await ifFound(client.get<RawConfiguration>(CONFIGURATION_PATH));
      const bundles = (found?.webhooks ?? []).map(({ clientConfig }) => decoded(clientConfig?.caBundle ?? ""));
      return found && { bundles, version: found.metadata.resourceVersion };
    },

    /**
     * Replaces the data of `before`, or creates the Secret if that is undefined. Creates by server-side apply, so that
     * RBAC can limit the permission to create to the name. Changes by a patch: an apply would keep what another manager
     * has also written (a restored backup).
     */
    async writeSecret(name: SecretName, text: SecretContent["data"], before: SecretContent | undefined): Promise<void> {
      const data = Object.fromEntries(Object.entries(text).map(([key, value]) => [key, encoded(value)]));
      if (before !== undefined) {
        const change: JsonPatchOperation = { op: "add", path: "/data", value: data };
        return await patch(secretPath(name), before.version, SECRETS_MANAGER, [change]);
      }
      signal.throwIfAborted();
      const metadata = { name, namespace, resourceVersion: NO_VERSION };
      const object = { apiVersion: "v1", kind: "Secret", metadata, type: TYPES[name], data };
      await client.apply(secretPath(name), object, { fieldManager: SECRETS_MANAGER, force: true });
    },

    /**
     * Writes `bundle` into every entry of `before`, and nothing else. A JSON Patch, not server-side apply. An applier
     * owns the list entries that it names. If another manager (Helm 4) then removes or renames one, half an entry would
     * remain, and the API server rejects that apply. The patch owns only `caBundle`.
     */
    async writeBundle(bundle: string, { bundles, version }: BundleView): Promise<void> {
      const value = encoded(bundle);
      const path = (at: number) => `/webhooks/${at}/clientConfig/caBundle`;
      const operations = bundles.map((_, at) => ({ op: "add" as const, path: path(at), value }));
      await patch(CONFIGURATION_PATH, version, BUNDLE_MANAGER, operations);
    },

    /** Calls `changed` whenever one of the objects may have changed. */
    watch(changed: () => void, log: Logger): void {
      const secrets = ([CA_SECRET, TLS_SECRET] as const).map((name) => ({ path: secretPath(), name }));
      for (const { path, name } of [...secrets, { path: resourcePath(KIND), name: WEBHOOK_CONFIGURATION }]) {
        const watcher = watchObjects<string>({
          client,
          path,
          fieldSelector: `metadata.name=${name}`,
          // Keeps no key in memory: only the change itself matters.
          project: (raw) => (raw as RawSecret).metadata.resourceVersion,
          onChange: changed,
          onSynced: changed,
          log,
        });
        signal.addEventListener("abort", () => void watcher.stop(), { once: true });
      }
    },
  };
}
