import { show } from "./hostnames.ts";
import type { Reason } from "./types.ts";
import { ANY_DEPTH, anyDepthOf, isWildcard, plannedNameOf } from "./wildcards.ts";

const PROTECTED = "name-protected";

/**
 * Names at or below these suffixes are never mapped, whatever the rules say. The cluster's own domain is added to the
 * first group. `areHosts`: there are names at the suffix itself, so a wildcard of one label above the suffix matters.
 * A domain of the cluster has its names further down.
 */
const GROUPS = [
  {
    // A pod's search list turns `kubernetes.default` and `kubernetes.default.svc` into the API server. The hosts file
    // is read before DNS, so these names would hijack Services. `pod`: names of pods (kubernetes/dns,
    // docs/specification.md, 2.5). `clusterset.local`: Services of several clusters (KEP-1645).
    why: "belongs to the cluster's own DNS",
    areHosts: false,
    suffixes: [
      "svc",
      "pod",
      "cluster.local",
      "clusterset.local",
      "default",
      "kube-system",
      "kube-public",
      "kube-node-lease",
    ],
  },
  {
    // RFC 6761, 6.3, and the name that Linux distributions add to it.
    why: "is a loopback name (RFC 6761)",
    areHosts: true,
    suffixes: ["localhost", "localdomain"],
  },
  {
    // Clouds serve credentials and container tools expose the host under these names. Mapping such a name would
    // redirect credential requests.
    why: "belongs to a cloud's metadata service or to the container host",
    areHosts: true,
    suffixes: [
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
    ],
  },
  {
    // Public ACME directories and the other hosts that their clients call. A tenant who maps one intercepts
    // cert-manager's traffic.
    why: "belongs to a public ACME server",
    areHosts: true,
    suffixes: [
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
    ],
  },
];

/** The suffixes of all groups, without the cluster's own domain. */
export const BUILT_IN_SUFFIXES: readonly string[] = GROUPS.flatMap(({ suffixes }) => suffixes);

/**
 * Returns the reason why nobody may have a name of the map (also a wildcard of either kind). Undefined: it is
 * allowed.
 */
export type NameProtection = (name: string) => Reason | undefined;

/**
 * Returns the protection of names for every component that maps or writes names. It refuses names at or below a
 * protected suffix, and wildcards that cover such a name:
 *
 * - `**.x` covers every name below `x`. It is refused at, below and above a suffix.
 * - `*.x` covers names with one more label. It is refused at and below a suffix, and above a suffix that has hosts.
 *   Above the cluster's domain it covers only the domain itself, where no name exists: `*.corp.example` is a usual
 *   name beside the cluster's domain `k8s.corp.example`.
 *
 * @param clusterDomain the detected DNS domain of the cluster.
 * @param searches the search domains of pods. Only writers of DNS pass them. A resolver appends them to names with
 *   few dots (`ndots`), before it asks for the name itself. So `**.x` at or above one would answer for every external
 *   name. A hosts file is not searched this way, and other names below a search domain answer only for themselves.
 */
export function protectNames(clusterDomain: string | undefined, searches: readonly string[] = []): NameProtection {
  const own = clusterDomain === undefined ? [] : [withoutDot(clusterDomain)];
  const protections = GROUPS.flatMap(({ suffixes, ...why }, index) =>
    [...suffixes, ...(index === 0 ? own : [])].map((suffix) => ({ suffix, ...why })),
  );
  const searched = searches.map(withoutDot);
  return (name) => {
    const [planned, isAnyDepth] = [plannedNameOf(name), name.startsWith(ANY_DEPTH)];
    const apex = isWildcard(name) ? planned.slice(2) : name;
    const at = protections.find(({ suffix }) => isAtOrBelow(apex, suffix));
    if (at !== undefined) return { code: PROTECTED, text: `${show(planned)} ${at.why} and is never mapped` };
    if (!isWildcard(name)) return undefined;
    const covered = protections.find(({ suffix, areHosts }) => (areHosts || isAnyDepth) && isAtOrBelow(suffix, apex));
    const shown = isAnyDepth ? `${show(planned)}, at any depth,` : show(planned);
    if (covered !== undefined)
      return { code: PROTECTED, text: `${shown} covers ${show(covered.suffix)}, which ${covered.why}` };
    const search = isAnyDepth ? searched.find((each) => isAtOrBelow(each, apex)) : undefined;
    if (search === undefined) return undefined;
    const text = `${shown} would answer every name that pods look up, by their search domain ${show(search)}`;
    return { code: "search-domain", text };
  };
}

function isAtOrBelow(name: string, suffix: string): boolean {
  return name.endsWith(suffix) && (name.length === suffix.length || name.at(-suffix.length - 1) === ".");
}

/**
 * Returns a name as a DNS zone treats it. A wildcard record covers any number of labels (RFC 4592, 2.1.1 and 2.2.1).
 * So a component that writes a wildcard of one label as a record must check it as one of any depth.
 */
export function asDnsWildcard(name: string): string {
  return name.startsWith("*.") ? anyDepthOf(name) : name;
}

function withoutDot(domain: string): string {
  return domain.toLowerCase().replace(/\.$/, "");
}
