import { type Glob, isGlob, parseGlob, show } from "./hostnames.ts";
import type { Reason } from "./types.ts";

/** Which namespaces may claim which domains, as configured. */
export interface ClaimRule {
  /** Namespaces, or `*`. */
  readonly namespaces: readonly string[];
  readonly domains: readonly string[];
}

/** What a namespace's annotation lists; undefined: it has none. */
export type DomainsOf = (namespace: string) => string | undefined;

/** Parsed annotations that are kept: one a namespace, and what comes after too many is parsed again. */
const MAX_PARSED = 10_000;

/**
 * Judges whether a namespace may claim a name. Without rules and without `domainsOf` everybody may claim everything; with either,
 * only what a rule or the namespace's own annotation allows.
 */
export function createPermissions(
  rules: readonly ClaimRule[],
  domainsOf?: DomainsOf,
): (name: string, namespace: string) => Reason | undefined {
  if (rules.length === 0 && domainsOf === undefined) return () => undefined;
  const general = rules.flatMap(({ namespaces, domains }) => (namespaces.includes("*") ? globsOf(domains) : []));
  const own = new Map<string, Glob[]>();
  for (const { namespaces, domains } of rules) {
    for (const namespace of namespaces) own.set(namespace, [...(own.get(namespace) ?? []), ...globsOf(domains)]);
  }
  const parsed = new Map<string, readonly Glob[]>();
  const annotated = (text: string): readonly Glob[] => {
    const known = parsed.get(text);
    if (known !== undefined) return known;
    if (parsed.size >= MAX_PARSED) parsed.clear();
    const globs = globsOf(text.split(/[\s,]+/).filter((part) => part !== ""));
    parsed.set(text, globs);
    return globs;
  };
  return (name, namespace) => {
    const isIn = (globs: readonly Glob[] | undefined) => globs?.some((glob) => glob.matches(name)) === true;
    if (isIn(general) || isIn(own.get(namespace))) return undefined;
    const text = domainsOf?.(namespace);
    if (text !== undefined && isIn(annotated(text))) return undefined;
    const where = domainsOf === undefined ? "policy.claims" : "policy.claims, the namespace's switchback.dev/domains";
    return { code: "claim-not-allowed", text: `the namespace ${namespace} may not claim ${show(name)} (${where})` };
  };
}

/** A pattern that does not parse allows nothing. */
function globsOf(texts: readonly string[]): Glob[] {
  return texts.map(parseGlob).filter(isGlob);
}
