import { show } from "#hostmap/hostnames.ts";
import { DOMAINS_KEY } from "#hostmap/metadata-keys.ts";
import { serviceNameOf } from "#hostmap/service-names.ts";
import type { Reason } from "#hostmap/types.ts";
import { isPublicTld } from "#lib/config/public-tlds.ts";
import { corePath } from "#lib/kube/paths.ts";
import { readerOf } from "#lib/kube/shapes.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { SourceDeps } from "./kinds-source.ts";
import { informerState, type SourceState } from "./types.ts";

const readNamespace = readerOf({ metadata: { labels: "map", annotations: "map" } });

interface NamespaceView {
  readonly labels: Readonly<Record<string, string>>;
  /** The domains that the namespace may claim, as its annotation says. */
  readonly domains: string | undefined;
}

/** A change of a namespace. Undefined: it does not exist. */
type OnChange = (name: string, before: NamespaceView | undefined, after: NamespaceView | undefined) => void;

/** The namespaces of the cluster, for all that need them: one watch of their metadata. */
export class Namespaces {
  readonly #deps: Pick<SourceDeps, "client" | "log">;
  readonly #listeners: OnChange[] = [];
  #informer: Informer<NamespaceView> | undefined;

  constructor(deps: Pick<SourceDeps, "client" | "log">) {
    this.#deps = deps;
  }

  start(onSynced: () => void): void {
    this.#informer = watchObjects<NamespaceView>({
      ...this.#deps,
      path: corePath("namespaces"),
      metadataOnly: true,
      project: (raw) => {
        const { labels = {}, annotations = {} } = readNamespace(raw).metadata ?? {};
        return { labels, domains: annotations[DOMAINS_KEY] };
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

const IN_CLUSTER_NAME = "in-cluster-name";

/**
 * Why a name (in lower case) is, or may be, a name of a Service of this cluster in a pod; undefined: it is not. These
 * are the names of existing Services, and all names below a namespace that is not a public top-level domain. If the
 * namespace is a public top-level domain, such as `dev`, then `shop.dev` is an ordinary name unless `dev` has a Service
 * `shop`. Without discovery, no Service is known.
 */
export function inClusterReason(
  hostname: string,
  namespaces: Pick<Namespaces, "of">,
  hasService: (key: string) => boolean,
): Reason | undefined {
  const { namespace, name } = serviceNameOf(hostname) ?? {};
  if (namespace === undefined || namespaces.of(namespace) === undefined) return undefined;
  if (!isPublicTld(namespace)) {
    const what = `a Service of the namespace ${namespace}, which is no public top-level domain`;
    return { code: IN_CLUSTER_NAME, text: `${show(hostname)} would be ${what}` };
  }
  if (!hasService(`${namespace}/${name}`)) return undefined;
  return { code: IN_CLUSTER_NAME, text: `${show(hostname)} is the Service ${name} of the namespace ${namespace}` };
}
