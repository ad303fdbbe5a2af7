import { INJECT_KEY } from "#hostmap/metadata-keys.ts";
import { decideOptIn, MIRROR_KEY } from "#hostmap/opt-in.ts";
import type { NamespaceFacts } from "./namespaces.ts";
import type { PodFacts } from "./pods.ts";

/** Whether a pod with these facts opted in. `namespaceOf` is undefined where the Namespace is not known, or gone. */
export function isOptedIn(
  { namespace, inject, mirror }: Pick<PodFacts, "namespace" | "inject" | "mirror">,
  namespaceOf: NamespaceFacts | undefined,
  excludedNamespaces: ReadonlySet<string>,
): boolean {
  return decideOptIn({
    namespace,
    labels: label(inject),
    annotations: mirror ? { [MIRROR_KEY]: "" } : {},
    namespaceLabels: label(namespaceOf?.inject),
    excludedNamespaces,
  }).optedIn;
}

function label(value: string | undefined): Record<string, string> {
  return value === undefined ? {} : { [INJECT_KEY]: value };
}
