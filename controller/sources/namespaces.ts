import { DOMAINS_KEY } from "#hostmap/metadata-keys.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { informerState } from "./followed-kind.ts";
import type { Labels } from "./gateway/route-attachment.ts";
import { mapOf, type Raw, textMapOf } from "./raw-object.ts";
import type { Prerequisite, SourceState } from "./types.ts";

interface NamespaceView {
  readonly labels: Labels;
  /** The domains that the namespace may claim, as its annotation says. */
  readonly domains: string | undefined;
}

/** A change of a namespace. Undefined: it does not exist. */
type OnChange = (name: string, before: NamespaceView | undefined, after: NamespaceView | undefined) => void;

/** The namespaces of the cluster, for all that need them: one watch of their metadata. */
export class Namespaces implements Prerequisite {
  readonly #deps: { readonly client: Pick<KubeClient, "get" | "stream">; readonly log: Logger };
  readonly #listeners: OnChange[] = [];
  #informer: Informer<NamespaceView> | undefined;

  constructor(deps: { readonly client: Pick<KubeClient, "get" | "stream">; readonly log: Logger }) {
    this.#deps = deps;
  }

  start(onSynced: () => void): void {
    this.#informer = watchObjects<NamespaceView, Raw>({
      ...this.#deps,
      path: corePath("namespaces"),
      metadataOnly: true,
      project: ({ metadata }) => {
        const { labels, annotations } = mapOf(metadata);
        return { labels: textMapOf(labels), domains: textMapOf(annotations)[DOMAINS_KEY] };
      },
      onChange: ({ key, before, after }) => {
        for (const listener of this.#listeners) listener(key, before, after);
      },
      onSynced,
    });
  }

  follow(onChange: OnChange): void {
    this.#listeners.push(onChange);
  }

  get synced(): boolean {
    return this.#informer?.state.synced === true;
  }

  /** Undefined: the namespace does not exist, or the namespaces are not known yet. */
  of(name: string): NamespaceView | undefined {
    return this.#informer?.objects().get(name);
  }

  state(): SourceState[] {
    return [informerState("namespace names", this.#informer)];
  }

  async stop(): Promise<void> {
    await this.#informer?.stop();
  }
}
