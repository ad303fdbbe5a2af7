import { globsOf, parseHostname, show } from "./hostnames.ts";
import { type ClaimRule, createPermissions, type DomainsOf } from "./namespace-claims.ts";
import { asDnsWildcard, protectNames } from "./protected-names.ts";
import type { Claim, Reason } from "./types.ts";

/** The names that an install allows. Empty lists do not restrict. */
export interface PolicyRules {
  readonly allowDomains: readonly string[];
  readonly denyDomains: readonly string[];
  readonly namespaces: readonly string[];
  readonly denyNamespaces: readonly string[];
  /** Which namespaces may claim which domains. Default: every namespace may claim every domain. */
  readonly claims?: readonly ClaimRule[];
  /** Maximum number of distinct names that the objects of one namespace may claim. */
  readonly maxNamesPerNamespace: number;
}

/** A claim with its hostname in lower case. `refused` is the reason why it cannot be mapped, if any. */
export interface EvaluatedClaim {
  readonly claim: Claim;
  readonly name: string;
  readonly refused: Reason | undefined;
}

/** Evaluates each claim alone. `plan.ts` makes the decisions that depend on other claims (quota, conflicts). */
export type ClaimPolicy = (claim: Claim) => EvaluatedClaim;

/**
 * Creates the policy of an install. `clusterDomain` is the detected DNS domain of the cluster (`cozy.local`). No rule
 * overrides the built-in refusals. `lib/config/schema.ts` validates the patterns. A pattern that does not parse
 * matches nothing, so a list with only such patterns allows nothing. `domainsOf` returns the domains in a namespace's
 * annotation, if `policy.claims` enables it.
 */
export function createClaimPolicy(
  rules: PolicyRules,
  clusterDomain: string | undefined,
  domainsOf?: DomainsOf,
): ClaimPolicy {
  const protect = protectNames(clusterDomain);
  const allowed = globsOf(rules.allowDomains);
  const denied = globsOf(rules.denyDomains);
  const mayClaim = createPermissions(rules.claims ?? [], domainsOf);
  const checks: ReadonlyArray<(name: string, claim: Claim) => Reason | undefined> = [
    (name, { anyDepth }) => protect(anyDepth ? asDnsWildcard(name) : name),
    (_name, { from }) =>
      rules.denyNamespaces.includes(from.namespace) ||
      (rules.namespaces.length > 0 && !rules.namespaces.includes(from.namespace))
        ? {
            code: "namespace-not-allowed",
            text: `the namespace ${from.namespace} may not claim names (policy.namespaces)`,
          }
        : undefined,
    (name) =>
      denied.some((glob) => glob.matches(name))
        ? { code: "domain-not-allowed", text: `${show(name)} is under policy.denyDomains` }
        : undefined,
    (name) =>
      rules.allowDomains.length > 0 && !allowed.some((glob) => glob.matches(name))
        ? { code: "domain-not-allowed", text: `${show(name)} is not under policy.allowDomains` }
        : undefined,
    (name, { from }) => mayClaim(name, from.namespace),
    (_name, { target }) => (typeof target === "string" ? undefined : target),
  ];
  return (claim) => {
    const parsed = parseHostname(claim.hostname);
    if (parsed.kind === "invalid") return { claim, name: claim.hostname, refused: parsed.reason };
    const { name } = parsed;
    let refused: Reason | undefined;
    for (const check of checks) {
      refused = check(name, claim);
      if (refused !== undefined) break;
    }
    return { claim, name, refused };
  };
}

/** The reason for a name beyond the quota of its namespace. */
export function beyondQuota(namespace: string, quota: number): Reason {
  const text =
    `the namespace ${namespace} claims more than ${quota} names; those mapped first, then those of its oldest ` +
    "objects, are mapped";
  return { code: "namespace-quota", text };
}
