import { INJECT_KEY } from "#hostmap/metadata-keys.ts";
import { decideOptIn, MIRROR_KEY, type OptInRules } from "#hostmap/opt-in.ts";
import type { NamespaceFacts } from "./namespaces.ts";
import type { PodFacts } from "./pods.ts";

/** Whether a pod with these facts opted in. `namespaceOf` is undefined if the Namespace has no label or is gone. */
export function isOptedIn(
  { namespace, inject, mirror }: Pick<PodFacts, "namespace" | "inject" | "mirror">,
  namespaceOf: NamespaceFacts | undefined,
  rules: OptInRules,
): boolean {
  return decideOptIn({
    namespace,
    labels: label(inject),
    annotations: mirror ? { [MIRROR_KEY]: "" } : {},
    namespaceLabels: label(namespaceOf?.inject),
    rules,
  }).optedIn;
}

function label(value: string | undefined): Record<string, string> {
  return value === undefined ? {} : { [INJECT_KEY]: value };
}
