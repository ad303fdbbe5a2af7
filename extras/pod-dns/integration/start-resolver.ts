import { type CoreDns, type CoreDnsBed, LOCAL } from "#test/integration/coredns.ts";
import { type CorefileOptions, renderCorefile } from "../corefile.ts";

/** Starts a CoreDNS with the product's Corefile. `directory` must already have the sidecar's files. */
export async function startResolver(
  bed: CoreDnsBed,
  name: string,
  options: Pick<CorefileOptions, "directory" | "upstream"> & Partial<CorefileOptions>,
): Promise<CoreDns> {
  const corefileOf = ([port = 0, healthPort = 0, readyPort = 0, metricsPort = 0]: readonly number[]) =>
    renderCorefile({
      address: LOCAL,
      port,
      healthPort,
      readyPort,
      metricsPort,
      clusterDomains: ["cluster.local"],
      ttl: 5,
      reloadMs: 50,
      ...options,
    });
  return await bed.start(name, corefileOf, options);
}
