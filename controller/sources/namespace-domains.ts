import { DOMAINS_KEY } from "#hostmap/metadata-keys.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { informerState } from "./ingress-hosts.ts";
import type { SourceState } from "./types.ts";

interface RawNamespace {
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> };
}

/** The domains that namespaces may claim, according to their annotations. */
interface NamespaceDomains {
  /** `onSynced` is called once, when all namespaces are known. Before that, no claim can be evaluated. */
  start(onSynced: () => void): void;
  domainsOf(namespace: string): string | undefined;
  /** `onChange` receives each namespace whose annotation has changed. */
  follow(onChange: (namespace: string) => void): void;
  state(): SourceState[];
  stop(): Promise<void>;
}

/** Follows the annotation of all namespaces. */
export function namespaceDomains(deps: {
  readonly client: Pick<KubeClient, "get" | "stream">;
  readonly log: Logger;
}): NamespaceDomains {
  const { client, log } = deps;
  let report: (namespace: string) => void = () => {};
  let informer: Informer<string | undefined> | undefined;
  return {
    domainsOf: (namespace) => informer?.objects().get(namespace),
    follow(onChange) {
      report = onChange;
    },
    start(onSynced) {
      informer = watchObjects<string | undefined, RawNamespace>({
        client,
        path: corePath("namespaces"),
        metadataOnly: true,
        project: ({ metadata }) => metadata.annotations?.[DOMAINS_KEY],
        onChange: ({ key, before, after }) => {
          if (before !== after) report(key);
        },
        onSynced,
        log,
      });
    },
    state: () => [informerState("namespaces", informer)],
    stop: async () => await informer?.stop(),
  };
}
