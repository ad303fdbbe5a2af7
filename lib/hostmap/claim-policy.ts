import { isGlob, parseGlob, parseHostname, show } from "./hostnames.ts";
import { type ClaimRule, createPermissions, type DomainsOf } from "./namespace-claims.ts";
import type { Claim, Reason } from "./types.ts";

/** What an install allows to be mapped. Empty lists do not restrict. */
export interface PolicyRules {
  readonly allowDomains: readonly string[];
  readonly denyDomains: readonly string[];
  readonly namespaces: readonly string[];
  readonly denyNamespaces: readonly string[];
  /** Which namespaces may claim which domains; none: all may claim all. */
  readonly claims?: readonly ClaimRule[];
  /** Distinct names that the objects of one namespace may claim. */
  readonly maxNamesPerNamespace: number;
}

/** A claim with its hostname in lower case; `refused` is the reason why it cannot be mapped, if there is one. */
export interface EvaluatedClaim {
  readonly claim: Claim;
  readonly name: string;
  readonly wildcard: boolean;
  readonly refused: Reason | undefined;
}

/** Evaluates one claim at a time. What depends on other claims (quota, conflicts) is decided in `plan.ts`. */
export type ClaimPolicy = (claim: Claim) => EvaluatedClaim;

/** RFC 6761, 6.3, and the name that Linux distributions add to it. */
const LOOPBACK = ["localhost", "localdomain"];

/**
 * Names under which clouds serve credentials and container tools expose the host. Mapping one would redirect credential
 * requests.
 */
const METADATA = [
  "metadata.google.internal",
  "google.internal",
  "metadata.goog",
  "ec2.internal",
  "instance-data.ec2.internal",
  "azure.internal",
  "metadata.azure.com",
  "metadata.tencentyun.com",
  "metadata.platformequinix.com",
  "docker.internal",
  "minikube.internal",
];

/**
 * Public ACME directories and the other hosts that their clients call. A tenant who maps one intercepts
 * cert-manager's traffic.
 */
const ACME = [
  "letsencrypt.org",
  "lencr.org",
  "pki.goog",
  "acme.zerossl.com",
  "zerossl.com",
  "api.buypass.com",
  "api.test4.buypass.no",
  "acme.ssl.com",
  "acme.sectigo.com",
  "acme.digicert.com",
  "acme.entrust.net",
  "acme.actalis.com",
  "acme.harica.gr",
  "acme-api.actalis.com",
];

/**
 * Suffixes that mean "inside this cluster". A pod's search list turns `kubernetes.default` and
 * `kubernetes.default.svc` into the API server, and the hosts file is read before DNS, so these names would hijack
 * Services.
 */
const CLUSTER = ["svc", "cluster.local", "default", "kube-system", "kube-public", "kube-node-lease"];

/** Names at or below these are never mapped, whatever the rules say; the cluster's own domain is not among them. */
export const BUILT_IN_SUFFIXES: readonly string[] = [...CLUSTER, ...LOOPBACK, ...METADATA, ...ACME];

/**
 * Creates the policy of an install. `clusterDomain` is the detected DNS domain of the cluster (`cozy.local`). No
 * rule overrides the built-in refusals. `lib/config/schema.ts` validates globsOf; one that does not parse matches
 * nothing, so a list of only such globsOf allows nothing. `domainsOf` returns the domains in a namespace's
 * annotation, where `policy.claims` enables it.
 */
export function createClaimPolicy(
  rules: PolicyRules,
  clusterDomain: string | undefined,
  domainsOf?: DomainsOf,
): ClaimPolicy {
  const cluster = clusterDomain === undefined ? CLUSTER : [...CLUSTER, clusterDomain.toLowerCase().replace(/\.$/, "")];
  const builtIn: ReadonlyArray<readonly [readonly string[], string, string]> = [
    [cluster, "cluster-domain", "belongs to the cluster's own DNS"],
    [LOOPBACK, "loopback-name", "is a loopback name (RFC 6761)"],
    [METADATA, "metadata-server", "belongs to a cloud's metadata service or to the container host"],
    [ACME, "acme-server", "belongs to a public ACME server"],
  ];
  const allowed = globsOf(rules.allowDomains);
  const denied = globsOf(rules.denyDomains);
  const mayClaim = createPermissions(rules.claims ?? [], domainsOf);
  const checks: ReadonlyArray<(name: string, claim: Claim) => Reason | undefined> = [
    (name) => {
      const match = builtIn.find(([suffixes]) =>
        suffixes.some((suffix) => isAtOrBelow(name, suffix) || (suffixes !== cluster && covers(name, suffix))),
      );
      return match && { code: match[1], text: `${show(name)} ${match[2]} and is never mapped` };
    },
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
        ? { code: "domain-denied", text: `${show(name)} is under policy.denyDomains` }
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
    if (parsed.kind === "invalid") return { claim, name: claim.hostname, wildcard: false, refused: parsed.reason };
    const { name } = parsed;
    let refused: Reason | undefined;
    for (const check of checks) {
      refused = check(name, claim);
      if (refused !== undefined) break;
    }
    return { claim, name, wildcard: parsed.kind === "wildcard", refused };
  };
}

function globsOf(texts: readonly string[]) {
  return texts.map(parseGlob).filter(isGlob);
}

/**
 * Whether a wildcard covers a protected name: `*.buypass.com` includes the ACME server `api.buypass.com`. The
 * cluster domain is exempt: the cluster's DNS server answers for it before any wildcard, and `*.corp.example` above
 * it is an ordinary name.
 */
function covers(name: string, suffix: string): boolean {
  return name.startsWith("*.") && suffix.endsWith(name.slice(1));
}

/** Whether a name is the suffix or below it. `*.example.com` counts as below `example.com`. */
function isAtOrBelow(name: string, suffix: string): boolean {
  return name === suffix || name.endsWith(`.${suffix}`);
}
