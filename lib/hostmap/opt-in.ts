/**
 * Annotation of the mirror pod of a static pod. The pod's hostAliases come from the file on the node, so a change of
 * the mirror has no effect.
 */
export const MIRROR_KEY = "kubernetes.io/config.mirror";

/** The configured rules for the opt-in of namespaces, by name. */
export interface OptInRules {
  /** Namespaces whose pods are never sent to the webhook, including Switchback's own. */
  readonly excluded: ReadonlySet<string>;
  /** `optIn.namespaces`: namespaces that opt in without a label. */
  readonly listed: ReadonlySet<string>;
}

/**
 * Whether a namespace opted in, by its name or its label `switchback.dev/inject`. The selectors of the webhook's
 * entries decide in the same way. `disabled` takes precedence over the list. An unknown value counts as no label.
 */
export function isNamespaceOptedIn(name: string, label: string | undefined, { excluded, listed }: OptInRules): boolean {
  if (excluded.has(name)) return false;
  return label === "enabled" || (label !== "disabled" && listed.has(name));
}
