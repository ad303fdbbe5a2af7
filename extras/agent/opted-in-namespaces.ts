import { INJECT_KEY } from "#hostmap/metadata-keys.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { type NamespaceFacts, namespaceFacts } from "#lib/workloads/namespaces.ts";

/**
 * The Namespaces with the label that opts in or out, by name: of 10,000, the few hundred that matter. `onChange` is
 * called once they are listed, and then when the facts of one change.
 */
export function watchOptedInNamespaces(deps: {
  readonly client: Pick<KubeClient, "get" | "stream">;
  readonly log: Logger;
  readonly onChange: () => void;
}): Informer<NamespaceFacts> {
  const { client, log, onChange } = deps;
  const informer = watchObjects<NamespaceFacts>({
    client,
    path: corePath("namespaces"),
    labelSelector: INJECT_KEY,
    metadataOnly: true,
    project: namespaceFacts,
    onChange({ before, after }) {
      const isSame = before?.inject === after?.inject && before?.onChange === after?.onChange;
      if (informer.state.synced && !isSame) onChange();
    },
    onSynced: onChange,
    log,
  });
  return informer;
}
