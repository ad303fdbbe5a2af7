/**
 * The cluster's DNS domain, read from a pod's /etc/resolv.conf, whose search list has `<namespace>.svc.<domain>` and
 * `svc.<domain>` (KEP-0022, "ClusterFirst"). Undefined when the file is not a pod's. Clusters are not all `cluster.local`.
 */
export function clusterDomainFrom(resolvConf: string): string | undefined {
  for (const line of resolvConf.split("\n")) {
    const [keyword, ...domains] = line.trim().split(/\s+/);
    if (keyword !== "search") continue;
    const own = domains.find((domain) => domain.startsWith("svc.") && domain.length > "svc.".length);
    if (own !== undefined) return own.slice("svc.".length).replace(/\.$/, "").toLowerCase();
  }
  return undefined;
}
