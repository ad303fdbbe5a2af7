import type { Reason } from "#hostmap/types.ts";
import { searchesIn } from "#lib/process/resolv-conf.ts";

/** A pod's `spec.dnsConfig`. */
export interface PodDnsConfig {
  readonly nameservers?: readonly string[] | null | undefined;
  readonly searches?: readonly string[] | null | undefined;
  readonly options?: readonly PodDnsOption[] | null | undefined;
}

interface PodDnsOption {
  readonly name?: string | undefined;
  readonly value?: string | null | undefined;
}

/**
 * DNS settings that pods with the policy ClusterFirst get from the cluster and their node, as one of our own pods has
 * them.
 */
export interface ClusterDns {
  /** The DNS servers of the cluster. */
  readonly servers: readonly string[];
  /** Domain of the cluster. */
  readonly domain: string;
  /** Search domains of the node. They follow the three of the cluster. */
  readonly nodeSearches: readonly string[];
  readonly options: readonly PodDnsOption[];
}

/** The resolvers that are injected, and the other settings that ClusterFirst would have given. */
export interface PodDnsSetup {
  readonly resolvers: readonly string[];
  readonly cluster: ClusterDns;
}

/** Limits of Kubernetes (pkg/apis/core/validation MaxDNSNameservers, MaxDNSSearchPaths, MaxDNSSearchListChars). */
const MAX_NAMESERVERS = 3;
const MAX_SEARCHES = 32;
const MAX_SEARCH_CHARACTERS = 2048;

const MAX_DOMAIN = 253;
/** An RFC 1123 subdomain. The API server refuses a pod with any other search domain. */
const DOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

/**
 * By default, glibc waits 5 s before it asks the next nameserver, twice for each of the search domains. With these
 * options, a resolver that does not answer costs a look-up at most four seconds.
 */
const OUR_OPTIONS: readonly PodDnsOption[] = [
  { name: "timeout", value: "1" },
  { name: "attempts", value: "2" },
];

/**
 * Reads the resolv.conf of one of our pods, with the policy ClusterFirst, in the namespace `own`. `searches` replaces
 * the search domains of the pod's node. Returns a reason if the file is not from such a pod.
 */
export function readClusterDns(
  resolvConf: string,
  own: string,
  searches?: readonly string[] | undefined,
): ClusterDns | Reason {
  const lines = resolvConf.split("\n").map((line) => line.trim().split(/\s+/));
  const domains = searchesIn(resolvConf);
  const prefix = `${own}.svc.`;
  const domain = domains.find((each) => each.startsWith(prefix))?.slice(prefix.length);
  if (domain === undefined || !isDomain(domain)) return NOT_CLUSTER_FIRST;
  const ofCluster = clusterSearches(domain, own);
  const nodeSearches = (searches ?? domains).map((each) => each.toLowerCase().replace(/\.$/, ""));
  return {
    servers: lines.flatMap(([keyword, server]) => (keyword === "nameserver" && server !== undefined ? [server] : [])),
    domain,
    nodeSearches: [...new Set(nodeSearches)].filter((each) => isDomain(each) && !ofCluster.includes(each)),
    options: lines.flatMap(([keyword, ...options]) => (keyword === "options" ? options.map(parseOption) : [])),
  };
}

/**
 * Returns a notice if the node has its own search domains. Each webhook gives pods the search domains of its own
 * node, so they matter if nodes differ. Undefined if there are none, or if `configured` replaces them.
 */
export function nodeSearchesNotice(
  { nodeSearches }: ClusterDns,
  configured: readonly string[] | undefined,
): Reason | undefined {
  if (nodeSearches.length === 0 || configured !== undefined) return undefined;
  const text =
    "pods with pod DNS get the search domains of the webhook's node, whichever node they run on; this node has " +
    `${nodeSearches.join(" ")} (podDns.searches)`;
  return { code: "dns-node-searches", text };
}

/**
 * Builds the `dnsConfig` of a pod in `namespace`: the settings of ClusterFirst, with the resolvers of pod DNS. Cuts
 * search domains beyond the limits of Kubernetes, as the kubelet does. Undefined if the namespace makes no valid
 * search domain.
 */
export function buildDnsConfig({ resolvers, cluster }: PodDnsSetup, namespace: string): PodDnsConfig | undefined {
  const ofCluster = clusterSearches(cluster.domain, namespace);
  if (!ofCluster.every(isDomain)) return undefined;
  const ours = OUR_OPTIONS.map(({ name }) => name);
  return {
    nameservers: resolvers.slice(0, MAX_NAMESERVERS),
    searches: withinLimits([...ofCluster, ...cluster.nodeSearches]),
    options: [...cluster.options.filter(({ name }) => !ours.includes(name)), ...OUR_OPTIONS],
  };
}

function clusterSearches(domain: string, namespace: string): string[] {
  return [`${namespace}.svc.${domain}`, `svc.${domain}`, domain];
}

/** Returns as many of the first search domains as Kubernetes accepts. */
function withinLimits(searches: readonly string[]): string[] {
  let characters = -1;
  const kept = searches.slice(0, MAX_SEARCHES);
  const end = kept.findIndex((search) => {
    characters += search.length + 1;
    return characters > MAX_SEARCH_CHARACTERS;
  });
  return end === -1 ? kept : kept.slice(0, end);
}

function parseOption(text: string): PodDnsOption {
  const colon = text.indexOf(":");
  return colon <= 0 ? { name: text } : { name: text.slice(0, colon), value: text.slice(colon + 1) };
}

function isDomain(text: string): boolean {
  return text.length <= MAX_DOMAIN && DOMAIN.test(text);
}

const NOT_CLUSTER_FIRST: Reason = {
  code: "dns-not-cluster-first",
  text:
    "the webhook's own pod has no search domain of the cluster, so those of other pods cannot be rebuilt: its " +
    "dnsPolicy must be ClusterFirst",
};

/**
 * How injection changes `dnsPolicy` and `dnsConfig`: to pod DNS, or back to what the pod had before. Undefined if
 * nothing changes.
 */
export type DnsChange = { readonly set: PodDnsConfig } | "restore" | undefined;
