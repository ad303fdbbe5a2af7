import { INJECT_KEY, ON_CHANGE_KEY } from "#hostmap/metadata-keys.ts";
import { isNamespaceOptedIn, type OptInRules } from "#hostmap/opt-in.ts";
import type { ObjectChange } from "#lib/kube/cache.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { PodFacts } from "./pods.ts";

/**
 * The facts of a Namespace: the values of its label `switchback.dev/inject` and of its annotation
 * `switchback.dev/on-change`.
 */
export interface NamespaceFacts {
  readonly inject: string | undefined;
  readonly onChange: string | undefined;
}

/** Most namespaces have neither of the two. They share this object. */
const SILENT: NamespaceFacts = { inject: undefined, onChange: undefined };

/** All Namespaces, by name. */
export function watchNamespaces(deps: {
  readonly client: Pick<KubeClient, "get" | "stream">;
  readonly log: Logger;
  /**
   * Called for each change of a Namespace's facts, also during the first list. A Namespace without facts causes no
   * call.
   */
  readonly onChange: (change: ObjectChange<NamespaceFacts>) => void;
  /** Called once, after the first complete list. */
  readonly onSynced: () => void;
}): Informer<NamespaceFacts> {
  const { client, log, onChange, onSynced } = deps;
  return watchObjects<NamespaceFacts>({
    client,
    path: corePath("namespaces"),
    metadataOnly: true,
    project: namespaceFacts,
    onChange(change) {
      if (!isSame(change.before, change.after)) onChange(change);
    },
    onSynced,
    log,
  });
}

export function namespaceFacts({ metadata }: ApiObject): NamespaceFacts {
  const inject = metadata?.labels?.[INJECT_KEY];
  const onChange = metadata?.annotations?.[ON_CHANGE_KEY];
  return inject === undefined && onChange === undefined ? SILENT : { inject, onChange };
}

function isSame(before: NamespaceFacts = SILENT, after: NamespaceFacts = SILENT): boolean {
  return before.inject === after.inject && before.onChange === after.onChange;
}

/**
 * Whether a pod with these facts opted in. The selectors of the webhook's entries and `webhook/injection-decision.ts`
 * together decide in the same way. `namespaceOf` is undefined if the Namespace has no label or is gone.
 */
export function isOptedIn(
  { namespace, inject, mirror }: PodFacts,
  namespaceOf: NamespaceFacts | undefined,
  rules: OptInRules,
): boolean {
  if (rules.excluded.has(namespace) || mirror || inject === "disabled") return false;
  return inject === "enabled" || isNamespaceOptedIn(namespace, namespaceOf?.inject, rules);
}
