import { type Glob, globsOf, show } from "./hostnames.ts";
import { getOrAdd } from "./multi-map.ts";
import type { Reason } from "./types.ts";

/** A configured rule: which namespaces may claim which domains. */
export interface ClaimRule {
  /** Namespaces, or `*`. */
  readonly namespaces: readonly string[];
  readonly domains: readonly string[];
}

/** Returns the domains in a namespace's annotation, or undefined if it has no annotation. */
export type DomainsOf = (namespace: string) => string | undefined;

/** Maximum number of cached annotations, about one per namespace. A full cache is cleared. */
const MAX_PARSED = 10_000;

/**
 * Returns a function that checks whether a namespace may claim a name. It returns undefined if so, otherwise the
 * reason. Without rules and without `domainsOf`, every namespace may claim every name. With either, a rule or the
 * namespace's annotation must allow it.
 */
export function createPermissions(
  rules: readonly ClaimRule[],
  domainsOf?: DomainsOf,
): (name: string, namespace: string) => Reason | undefined {
  if (rules.length === 0 && domainsOf === undefined) return () => undefined;
  const byNamespace = new Map<string, Glob[]>();
  for (const { namespaces, domains } of rules) {
    for (const namespace of namespaces) getOrAdd(byNamespace, namespace, () => []).push(...globsOf(domains));
  }
  const parsed = new Map<string, readonly Glob[]>();
  const globsOfAnnotation = (text: string): readonly Glob[] => {
    if (parsed.size >= MAX_PARSED) parsed.clear();
    return getOrAdd(parsed, text, () => globsOf(text.split(/[\s,]+/).filter((part) => part !== "")));
  };
  return (name, namespace) => {
    const matchesAny = (globs: readonly Glob[] | undefined) => globs?.some((glob) => glob.matches(name)) === true;
    if (matchesAny(byNamespace.get("*")) || matchesAny(byNamespace.get(namespace))) return undefined;
    const text = domainsOf?.(namespace);
    if (text !== undefined && matchesAny(globsOfAnnotation(text))) return undefined;
    const where = domainsOf === undefined ? "policy.claims" : "policy.claims, the namespace's switchback.dev/domains";
    return { code: "claim-not-allowed", text: `the namespace ${namespace} may not claim ${show(name)} (${where})` };
  };
}
