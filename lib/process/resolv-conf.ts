import type { Reason } from "#hostmap/types.ts";

/**
 * Returns the search domains of a resolv.conf, in lower case and without a final dot. The last of several lists
 * counts.
 */
export function searchesIn(resolvConf: string): string[] {
  const lines = resolvConf.split("\n").map((line) => line.trim().split(/\s+/));
  // resolv.conf(5)
  const [, ...list] = lines.findLast(([keyword]) => keyword === "search") ?? [];
  return list.map((domain) => domain.toLowerCase().replace(/\.$/, ""));
}

/**
 * The search domains of pods that a process knows: from the resolv.conf of its pod, and from the configuration of pod
 * DNS.
 */
export function searchesOfPods(resolvConf: string, config: object): string[] {
  const { podDns } = config as { readonly podDns?: { readonly searches?: readonly string[] | undefined } };
  return [...searchesIn(resolvConf), ...(podDns?.searches ?? [])];
}

/**
 * The cluster's DNS domain, from a pod's /etc/resolv.conf. Its search list has `<namespace>.svc.<domain>` and
 * `svc.<domain>` (KEP-0022, "ClusterFirst"). Undefined if the file is not a pod's. Not every cluster uses
 * `cluster.local`.
 */
export function clusterDomainFrom(resolvConf: string): string | undefined {
  const domains = searchesIn(resolvConf);
  // The namespace's entry ends with this one. In a namespace called `svc`, both entries begin with `svc.`.
  const serviceDomain = domains.find(
    (domain) => domain.startsWith("svc.") && domains.some((other) => other.endsWith(`.${domain}`)),
  );
  return serviceDomain?.slice("svc.".length);
}

/**
 * Reports a configured domain that differs from the domain of this pod; undefined: they agree, or one of them is not
 * known. With a wrong domain, names of Services would not resolve, and the cluster's own names would not be
 * protected.
 */
export function clusterDomainDiffers(configured: string | undefined, resolvConf: string): Reason | undefined {
  const own = clusterDomainFrom(resolvConf);
  const wanted = configured?.toLowerCase().replace(/\.$/, "");
  if (own === undefined || wanted === undefined || own === wanted) return undefined;
  const text = `clusterDomain is ${wanted}, but the search list of this pod's resolv.conf has svc.${own}`;
  return { code: "cluster-domain-differs", text };
}
