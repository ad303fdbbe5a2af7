import type { Reason } from "#hostmap/types.ts";

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

/**
 * The cluster's DNS domain, from a pod's /etc/resolv.conf. Its search list has `<namespace>.svc.<domain>` and
 * `svc.<domain>` (KEP-0022, "ClusterFirst"). Undefined if the file is not a pod's. Not every cluster uses
 * `cluster.local`.
 */
export function clusterDomainFrom(resolvConf: string): string | undefined {
  for (const line of resolvConf.split("\n")) {
    const [keyword, ...list] = line.trim().toLowerCase().split(/\s+/);
    if (keyword !== "search") continue;
    const domains = list.map((domain) => domain.replace(/\.$/, ""));
    // The namespace's entry ends with this one. In a namespace called `svc`, both entries begin with `svc.`.
    const serviceDomain = domains.find(
      (domain) => domain.startsWith("svc.") && domains.some((other) => other.endsWith(`.${domain}`)),
    );
    if (serviceDomain !== undefined) return serviceDomain.slice("svc.".length);
  }
  return undefined;
}
