import type { KubeClient } from "../kube/client.ts";
import { resourcePath } from "../kube/paths.ts";
import type { EndpointFacts, ObjectName } from "./facts.ts";
import { type Known, known, learn, mapKnown } from "./known.ts";

interface RawSlice {
  readonly endpoints?: readonly { readonly conditions?: { readonly ready?: boolean } }[] | null;
}

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
    const path = resourcePath({ group: "discovery.k8s.io", version: "v1", resource: "endpointslices", namespace });
    return (await client.list<RawSlice>(path, { labelSelector: `kubernetes.io/service-name=${name}` })).items;
  });
  // An endpoint that does not say is ready (discovery/v1, EndpointConditions).
  return mapKnown(slices, (items) => {
    const endpoints = items.flatMap((slice) => slice.endpoints ?? []);
    return { namespace, name, ready: endpoints.filter(({ conditions }) => conditions?.ready !== false).length };
  });
}
