import type { Config } from "./schema.ts";

/** The namespaces whose pods are never sent to the webhook. */
export function excludedNamespaces({ namespace, pods }: Pick<Config, "namespace" | "pods">): ReadonlySet<string> {
  return new Set([...pods.excludedNamespaces, namespace]);
}
