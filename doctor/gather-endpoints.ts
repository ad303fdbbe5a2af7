import type { KubeClient } from "../kube/client.ts";
import { endpointSlicesOf, type RawEndpointSlice, readyAddresses } from "../kube/endpoints.ts";
import type { EndpointFacts, ObjectName } from "./facts.ts";
import { type Known, known, learn, mapKnown } from "./known.ts";

/** Of Services, one entry each; a Service of two families has two slices of the same pods, both counted. */
export async function gatherEndpoints(
  client: KubeClient,
  services: readonly ObjectName[],
): Promise<Known<readonly EndpointFacts[]>> {
  const all = await Promise.all(services.map((service) => endpointsOf(client, service)));
  const failed = all.find((one) => !one.known);
  return failed ?? known(all.flatMap((one) => (one.known ? one.value : [])));
}

async function endpointsOf(client: KubeClient, { namespace, name }: ObjectName): Promise<Known<EndpointFacts>> {
  const slices = await learn({ verb: "list", resource: "endpointslices.discovery.k8s.io", namespace }, async () => {
    const { path, labelSelector } = endpointSlicesOf(namespace, name);
    return (await client.list<RawEndpointSlice>(path, { labelSelector })).items;
  });
  return mapKnown(slices, (items) => ({ namespace, name, ready: items.flatMap(readyAddresses).length }));
}
