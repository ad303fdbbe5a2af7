import { type CoreDns, type CoreDnsBed, LOCAL } from "#test/integration/coredns.ts";
import { type CorefileOptions, renderCorefile } from "../corefile.ts";

/** Starts a CoreDNS with the product's Corefile. `directory` must already have the sidecar's files. */
export async function startResolver(
  bed: CoreDnsBed,
  name: string,
  options: Pick<CorefileOptions, "directory" | "upstream"> & Partial<CorefileOptions>,
): Promise<CoreDns> {
  const corefileOf = ([dns = 0, health = 0, ready = 0, metrics = 0]: readonly number[]) =>
    renderCorefile({
      address: LOCAL,
      ports: { dns, health, ready, metrics },
      clusterDomains: ["cluster.local"],
      ...options,
    });
  return await bed.start(name, corefileOf, options);
}
