import type { KubeClient } from "#lib/kube/client.ts";
import { endpointSlicesOf, type RawEndpointSlice, readyAddresses } from "#lib/kube/endpoints.ts";
import { type Fact, known, mapFact, readFact } from "./fact.ts";
import type { EndpointFacts, ObjectName } from "./facts.ts";

/** Counts the ready endpoints of each Service. A dual-stack Service lists each pod in two slices; both count. */
export async function gatherEndpoints(
  client: KubeClient,
  services: readonly ObjectName[],
): Promise<Fact<readonly EndpointFacts[]>> {
  const all = await Promise.all(services.map((service) => endpointsOf(client, service)));
  const failed = all.find((one) => !one.known);
  return failed ?? known(all.flatMap((one) => (one.known ? one.value : [])));
}

async function endpointsOf(client: KubeClient, { namespace, name }: ObjectName): Promise<Fact<EndpointFacts>> {
  const slices = await readFact({ verb: "list", resource: "endpointslices.discovery.k8s.io", namespace }, async () => {
    const { path, labelSelector } = endpointSlicesOf(namespace, name);
    return (await client.list<RawEndpointSlice>(path, { labelSelector })).items;
  });
  return mapFact(slices, (items) => ({ namespace, name, ready: items.flatMap(readyAddresses).length }));
}
