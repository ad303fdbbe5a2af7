import type { OptInRules } from "#hostmap/opt-in.ts";
import type { ClusterFacts } from "./facts.ts";

/**
 * The one entry that is not about pods. The controller uses it to test whether the API server can call the webhook.
 * It matches nothing else and fails closed.
 */
export const REACHABLE_ENTRY = "reachable.switchback.dev";

/**
 * The namespaces that opt in by name, and those that never opt in. The webhook configuration decides. If it is
 * unreadable or missing, Switchback's configuration does.
 */
export function optInRulesOf({
  admission,
  install,
  namespace,
}: Pick<ClusterFacts, "admission" | "install" | "namespace">): OptInRules {
  const entries = admission.configuration.known ? admission.configuration.value : undefined;
  const live = entries?.filter(({ name }) => name !== REACHABLE_ENTRY);
  const config = install.config.known ? install.config.value : undefined;
  return {
    excluded: new Set([
      ...(live?.flatMap((entry) => entry.excludedNamespaces) ?? config?.pods.excludedNamespaces ?? []),
      namespace,
    ]),
    listed: new Set(live?.flatMap((entry) => entry.listedNamespaces) ?? config?.optIn.namespaces ?? []),
  };
}
