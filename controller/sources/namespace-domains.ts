import { DOMAINS_KEY } from "../../hostmap/metadata-keys.ts";
import type { Claim } from "../../hostmap/types.ts";
import type { KubeClient } from "../../kube/client.ts";
import { corePath } from "../../kube/paths.ts";
import { type Informer, watchObjects } from "../../kube/watch.ts";
import type { Logger } from "../../telemetry/log.ts";
import { watcherState } from "./ingress.ts";
import type { SourceOf } from "./types.ts";

interface RawNamespace {
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> };
}

/** What namespaces' annotations let them claim. */
interface NamespaceDomains extends SourceOf<Claim> {
  domainsOf(namespace: string): string | undefined;
}

/**
 * Follows the annotation of all namespaces. It claims nothing itself; it is a source so that nothing is decided before it has been
 * read once. `onChange` names a namespace whose annotation is another one now.
 */
export function namespaceDomains(deps: {
  readonly client: Pick<KubeClient, "get" | "stream">;
  readonly log: Logger;
  readonly onChange: (namespace: string) => void;
}): NamespaceDomains {
  const { client, log, onChange } = deps;
  let watcher: Informer<string | undefined> | undefined;
  return {
    domainsOf: (namespace) => watcher?.objects().get(namespace),
    start(_sink, onSynced) {
      watcher = watchObjects<string | undefined, RawNamespace>({
        client,
        path: corePath("namespaces"),
        project: ({ metadata }) => metadata.annotations?.[DOMAINS_KEY],
        onChange: ({ key, before, after }) => {
          if (before !== after) onChange(key);
        },
        onSynced,
        log,
      });
    },
    state: () => [watcherState("namespaces", watcher)],
    stop: async () => await watcher?.stop(),
  };
}
