/**
 * The cluster's DNS domain, read from a pod's /etc/resolv.conf, whose search list has `<namespace>.svc.<domain>`
 * and `svc.<domain>` (KEP-0022, "ClusterFirst"). Undefined when the file is not a pod's. Clusters are not all
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
