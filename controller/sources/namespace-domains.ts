import { DOMAINS_KEY } from "#hostmap/metadata-keys.ts";
import type { Claim } from "#hostmap/types.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { informerState } from "./ingress.ts";
import type { SourceOf } from "./types.ts";

interface RawNamespace {
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> };
}

/** The domains that the annotations of namespaces allow them to claim. */
interface NamespaceDomains extends SourceOf<Claim> {
  domainsOf(namespace: string): string | undefined;
}

/**
 * Follows the annotation of all namespaces. It claims nothing itself; it is a source so that nothing is evaluated before all
 * namespaces were listed. `onChange` receives a namespace whose annotation has changed.
 */
export function namespaceDomains(deps: {
  readonly client: Pick<KubeClient, "get" | "stream">;
  readonly log: Logger;
  readonly onChange: (namespace: string) => void;
}): NamespaceDomains {
  const { client, log, onChange } = deps;
  let informer: Informer<string | undefined> | undefined;
  return {
    domainsOf: (namespace) => informer?.objects().get(namespace),
    start(_sink, onSynced) {
      informer = watchObjects<string | undefined, RawNamespace>({
        client,
        path: corePath("namespaces"),
        metadataOnly: true,
        project: ({ metadata }) => metadata.annotations?.[DOMAINS_KEY],
        onChange: ({ key, before, after }) => {
          if (before !== after) onChange(key);
        },
        onSynced,
        log,
      });
    },
    state: () => [informerState("namespaces", informer)],
    stop: async () => await informer?.stop(),
  };
}
