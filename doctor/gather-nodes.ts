import { canonicalIp, literalsOf } from "#controller/targets/service-view.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { type Fact, mapFact, readFact } from "./fact.ts";

interface RawNode {
  readonly status?: { readonly addresses?: readonly { readonly address?: string }[] | null };
}

/** Reads the IPs of all nodes. Each node's status has a list of its images, so thousands of nodes take seconds. */
export async function gatherNodeAddresses(client: KubeClient): Promise<Fact<ReadonlySet<string>>> {
  const nodes = await readFact({ verb: "list", resource: "nodes" }, async () => {
    const { items } = await client.list<RawNode>(corePath("nodes"));
    return items.map(({ status }) => literalsOf((status?.addresses ?? []).flatMap(({ address }) => address ?? [])));
  });
  return mapFact(nodes, (addresses) => new Set(addresses.flat().map(canonicalIp)));
}
