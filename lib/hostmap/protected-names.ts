import { parentsOf, show } from "./hostnames.ts";
import type { Reason } from "./types.ts";
import { ANY_DEPTH, anyDepthOf, isWildcard, plannedNameOf } from "./wildcards.ts";

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
 * Services. `pod`: names of pods (kubernetes/dns, docs/specification.md, 2.5). `clusterset.local`: Services of
 * several clusters (KEP-1645).
 */
const CLUSTER = [
  "svc",
  "pod",
  "cluster.local",
  "clusterset.local",
  "default",
  "kube-system",
  "kube-public",
  "kube-node-lease",
];

/** Names at or below these are never mapped, whatever the rules say; the cluster's own domain is not among them. */
export const BUILT_IN_SUFFIXES: readonly string[] = [...CLUSTER, ...LOOPBACK, ...METADATA, ...ACME];

/** Names that a reason lists. */
const MAX_LISTED = 3;

/** Why suffixes are protected. */
interface ProtectedGroup {
  readonly suffixes: readonly string[];
  readonly code: string;
  readonly why: string;
  /**
   * There are names at a suffix itself, so that a wildcard of one label above it matters. A domain of the cluster
   * has its names further down.
   */
  readonly areHosts: boolean;
}

/** The cluster's own domain is added to the first. */
const GROUPS: readonly [ProtectedGroup, ...ProtectedGroup[]] = [
  { suffixes: CLUSTER, code: "cluster-domain", why: "belongs to the cluster's own DNS", areHosts: false },
  { suffixes: LOOPBACK, code: "loopback-name", why: "is a loopback name (RFC 6761)", areHosts: true },
  {
    suffixes: METADATA,
    code: "metadata-server",
    why: "belongs to a cloud's metadata service or to the container host",
    areHosts: true,
  },
  { suffixes: ACME, code: "acme-server", why: "belongs to a public ACME server", areHosts: true },
];

interface Protection extends Omit<ProtectedGroup, "suffixes"> {
  readonly suffix: string;
}

/** Why nobody may have a name of the map, which may be a wildcard of either kind. Undefined: it may be had. */
export type NameProtection = (name: string) => Reason | undefined;

/**
 * The names that are never ours, for all who map or write names. Refused are names at or below a protected suffix, and
 * wildcards that cover such a name:
 *
 * - `**.x` covers every name below `x`. It is refused at, below and above a suffix.
 * - `*.x` covers names with one more label. It is refused at and below a suffix, and above a suffix that has hosts.
 *   Above the cluster's domain it covers the domain alone, where there is nothing: `*.corp.example` is a usual name
 *   beside the cluster's domain `k8s.corp.example`.
 *
 * @param clusterDomain the detected DNS domain of the cluster.
 * @param searches of those who write DNS: the search domains of pods. A resolver appends them to names with few dots
 *   (`ndots`), before it asks for the name itself. So `**.x` at or above one would answer for every external name. A
 *   hosts file is not searched this way, and other names below a search domain answer for themselves alone.
 */
export function protectNames(clusterDomain: string | undefined, searches: readonly string[] = []): NameProtection {
  const own = clusterDomain === undefined ? [] : [withoutDot(clusterDomain)];
  const protections = protectionsOf(own);
  const bySuffix = new Map(protections.toReversed().map((each) => [each.suffix, each]));
  const belowAnyDepth = firstBelow(protections);
  const belowOneLabel = firstBelow(protections.filter(({ areHosts }) => areHosts));
  const suffixes = searches.map((suffix) => ({ suffix: withoutDot(suffix) }));
  const searched = firstBelow(suffixes, { withItself: true });
  const atOrBelow = (shown: string, apex: string): Reason | undefined => {
    const suffix = [apex, ...parentsOf(apex)].find((each) => bySuffix.has(each));
    const found = suffix === undefined ? undefined : bySuffix.get(suffix);
    return found && { code: found.code, text: `${shown} ${found.why} and is never mapped` };
  };
  const above = (shown: string, found: Protection | undefined): Reason | undefined =>
    found && { code: found.code, text: `${shown} covers ${show(found.suffix)}, which ${found.why}` };
  return (name) => {
    if (!isWildcard(name)) return atOrBelow(show(name), name);
    const wildcard = plannedNameOf(name);
    const [shown, apex] = [show(wildcard), wildcard.slice(2)];
    const refused = atOrBelow(shown, apex);
    if (refused !== undefined || !name.startsWith(ANY_DEPTH)) return refused ?? above(shown, belowOneLabel.get(apex));
    const deep = `${shown}, at any depth,`;
    return above(deep, belowAnyDepth.get(apex)) ?? takingSearch(deep, searched.get(apex));
  };
}

function takingSearch(shown: string, search: { readonly suffix: string } | undefined): Reason | undefined {
  if (search === undefined) return undefined;
  const text = `${shown} would answer whatever pods look up, by their search domain ${show(search.suffix)}`;
  return { code: "search-domain", text };
}

/**
 * A name as the records of a DNS zone have it. A wildcard record covers any number of labels (RFC 4592, 2.1.1 and
 * 2.2.1), so one of a single label is judged as one of any depth by who writes it as a record.
 */
export function asDnsWildcard(name: string): string {
  return name.startsWith("*.") ? anyDepthOf(name) : name;
}

/** Names that a writer leaves out: their number, and the first few reasons. */
export class LeftOut {
  count = 0;
  readonly #first: Reason[] = [];

  add(reason: Reason): void {
    this.count += 1;
    if (this.#first.length < MAX_LISTED) this.#first.push(reason);
  }

  addAll({ count, reasons }: Pick<LeftOut, "count" | "reasons">): void {
    this.count += count;
    this.#first.push(...reasons.slice(0, MAX_LISTED - this.#first.length));
  }

  /** The first few. */
  get reasons(): readonly Reason[] {
    return this.#first;
  }

  /** What to report. It has the code of the first. Undefined: nothing is left out. */
  get reason(): Reason | undefined {
    const [first] = this.#first;
    if (first === undefined) return undefined;
    const texts = this.#first.map(({ text }) => text).join("; ");
    return { code: first.code, text: `${this.count} names are left out: ${texts}` };
  }
}

function protectionsOf(own: readonly string[]): Protection[] {
  const [cluster, ...others] = GROUPS;
  const groups = [{ ...cluster, suffixes: [...cluster.suffixes, ...own] }, ...others];
  return groups.flatMap(({ suffixes, ...why }) => suffixes.map((suffix) => ({ suffix, ...why })));
}

/** The first of the suffixes that lie below a name, by that name; `withItself`: or are that name. */
function firstBelow<T extends { readonly suffix: string }>(
  all: readonly T[],
  { withItself = false } = {},
): Map<string, T> {
  const found = new Map<string, T>();
  for (const each of all) {
    const names = [...(withItself ? [each.suffix] : []), ...parentsOf(each.suffix)];
    for (const name of names) if (!found.has(name)) found.set(name, each);
  }
  return found;
}

function withoutDot(domain: string): string {
  return domain.toLowerCase().replace(/\.$/, "");
}
