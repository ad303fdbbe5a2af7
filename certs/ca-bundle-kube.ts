import { statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { resourcePath } from "#lib/kube/paths.ts";
import type { JsonPatchOperation } from "#lib/kube/types.ts";
import { watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { type BundleView, type BundleWriter, WEBHOOK_CONFIGURATION } from "./ca-bundle.ts";

interface RawConfiguration {
  readonly metadata: { readonly name: string; readonly resourceVersion: string };
  readonly webhooks?: readonly { readonly name: string; readonly clientConfig?: { readonly caBundle?: string } }[];
}

/** Separate, so that `kubectl get --show-managed-fields` shows which component maintains the field. */
const FIELD_MANAGER = "switchback-cabundle";
const COLLECTION = { group: "admissionregistration.k8s.io", version: "v1", resource: "mutatingwebhookconfigurations" };
const PATH = resourcePath({ ...COLLECTION, name: WEBHOOK_CONFIGURATION });

interface BundleWriterDeps {
  /** Writes only while this replica leads. */
  readonly client: KubeClient;
  readonly log: Logger;
}

/** Maintains the caBundle of every entry of Switchback's MutatingWebhookConfiguration. */
export class KubeBundleWriter implements BundleWriter {
  readonly #deps: BundleWriterDeps;

  constructor(deps: BundleWriterDeps) {
    this.#deps = deps;
  }

  async read(): Promise<BundleView | undefined> {
    try {
      const found = await this.#deps.client.get<RawConfiguration>(PATH);
      const entries = (found.webhooks ?? []).map(({ name, clientConfig }) => ({
        name,
        bundle: Buffer.from(clientConfig?.caBundle ?? "", "base64").toString("utf8"),
      }));
      return { version: found.metadata.resourceVersion, entries };
    } catch (error) {
      if (statusOf(error) === 404) return undefined;
      throw error;
    }
  }

  /**
   * A JSON Patch, not server-side apply. An applier owns the list entries that it names. If another manager (Helm 4)
   * then removes or renames one, half an entry would remain, and the API server rejects that apply. The patch owns
   * only `caBundle`. The version makes it fail (409) if anything has changed, so the positions are still correct.
   * It also fails without the configuration (404) or without the entry (422).
   */
  async write(bundle: string, view: BundleView): Promise<void> {
    const value = Buffer.from(bundle, "utf8").toString("base64");
    const operations: JsonPatchOperation[] = [
      { op: "replace", path: "/metadata/resourceVersion", value: view.version },
      ...view.entries.map((_, at) => ({ op: "add" as const, path: `/webhooks/${at}/clientConfig/caBundle`, value })),
    ];
    await this.#deps.client.jsonPatch(PATH, operations, { fieldManager: FIELD_MANAGER });
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
