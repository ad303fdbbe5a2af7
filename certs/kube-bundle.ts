import { statusOf } from "../errors/errors.ts";
import type { KubeClient } from "../kube/client.ts";
import { resourcePath } from "../kube/paths.ts";
import { watchObjects } from "../kube/watch.ts";
import type { Logger } from "../observe/log.ts";
import { type BundleView, type BundleWriter, WEBHOOK_CONFIGURATION } from "./cabundle.ts";

interface RawConfiguration {
  readonly metadata: { readonly name: string; readonly resourceVersion: string };
  readonly webhooks?: readonly { readonly name: string; readonly clientConfig?: { readonly caBundle?: string } }[];
}

/** Of its own, so that `kubectl get --show-managed-fields` tells who keeps the field. */
const FIELD_MANAGER = "switchback-cabundle";
const COLLECTION = { group: "admissionregistration.k8s.io", version: "v1", resource: "mutatingwebhookconfigurations" };

/** Keeps the caBundle of every entry of our MutatingWebhookConfiguration. */
export class KubeBundleWriter implements BundleWriter {
  readonly #deps: { readonly client: KubeClient; readonly log: Logger };
  readonly #path = resourcePath({ ...COLLECTION, name: WEBHOOK_CONFIGURATION });

  constructor(deps: { readonly client: KubeClient; readonly log: Logger }) {
    this.#deps = deps;
  }

  async read(): Promise<BundleView | undefined> {
    try {
      const { metadata, webhooks = [] } = await this.#deps.client.get<RawConfiguration>(this.#path);
      const entries = webhooks.map(({ name, clientConfig }) => ({
        name,
        bundle: Buffer.from(clientConfig?.caBundle ?? "", "base64").toString("utf8"),
      }));
      return { version: metadata.resourceVersion, entries };
    } catch (error) {
      if (statusOf(error) === 404) return undefined;
      throw error;
    }
  }

  /**
   * `webhooks` is a list keyed by name, so only `caBundle` of the entries named is set. The version keeps a configuration or
   * an entry that has gone meanwhile from being made anew, in part, by us.
   */
  async write(bundle: string, view: BundleView): Promise<void> {
    const caBundle = Buffer.from(bundle, "utf8").toString("base64");
    const object = {
      apiVersion: "admissionregistration.k8s.io/v1",
      kind: "MutatingWebhookConfiguration",
      metadata: { name: WEBHOOK_CONFIGURATION, resourceVersion: view.version },
      webhooks: view.entries.map(({ name }) => ({ name, clientConfig: { caBundle } })),
    };
    await this.#deps.client.apply(this.#path, object, { fieldManager: FIELD_MANAGER, force: true });
  }

  watch(changed: () => void, signal: AbortSignal): void {
    const watcher = watchObjects<string>({
      client: this.#deps.client,
      path: resourcePath(COLLECTION),
      fieldSelector: `metadata.name=${WEBHOOK_CONFIGURATION}`,
      project: (raw) => (raw as RawConfiguration).metadata.resourceVersion,
      onChange: changed,
      onSynced: changed,
      log: this.#deps.log,
    });
    signal.addEventListener("abort", () => void watcher.stop(), { once: true });
  }
}
