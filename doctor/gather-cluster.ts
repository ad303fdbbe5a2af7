import { canonicalIp, isExposed, literalIPs, literalsOf } from "#controller/targets/service-view.ts";
import { METADATA_LIST } from "#lib/kube/accept.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { endpointSlicesOf, type RawEndpointSlice, readyAddresses } from "#lib/kube/endpoints.ts";
import { corePath, resourcePath } from "#lib/kube/paths.ts";
import { type RawService, readService } from "#lib/kube/services.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import { type NamespaceFacts, namespaceFacts } from "#lib/workloads/namespaces.ts";
import { type Fact, known, mapFact, readFact } from "./fact.ts";
import type { EndpointFacts, LoadBalancerIngress, ObjectName, ServiceFacts } from "./facts.ts";

// Facts about the cluster: Services, namespaces, cert-manager's issuers, nodes, endpoints. Keeps only what the checks
// use.

/** All Services of the cluster, including front Services and upstreams. */
export async function gatherServices(client: KubeClient): Promise<Fact<readonly ServiceFacts[]>> {
  return await readFact({ verb: "list", resource: "services" }, async () => {
    const { items } = await client.list(corePath("services"));
    return items.map((service) => serviceFacts(readService(service)));
  });
}

function serviceFacts(service: RawService): ServiceFacts {
  const { metadata = {}, spec = {}, status = {} } = service;
  const { ports = [] } = spec;
  return {
    namespace: metadata.namespace ?? "",
    name: metadata.name ?? "",
    type: spec.type ?? "ClusterIP",
    labels: metadata.labels ?? {},
    annotations: metadata.annotations ?? {},
    selector: spec.selector ?? {},
    clusterIPs: literalIPs(spec),
    ports: ports
      .filter(({ protocol = "TCP" }) => protocol === "TCP")
      .flatMap(({ name = "", port, appProtocol = "" }) => (port === undefined ? [] : { name, port, appProtocol })),
    entries: entriesOf(service),
    sourceRanges: spec.loadBalancerSourceRanges ?? [],
    conditions: (status.conditions ?? []).flatMap(({ type }) => type ?? []),
  };
}

/** The addresses that kube-proxy may short-circuit; `externalIPs` have no `ipMode`. */
function entriesOf(service: RawService): LoadBalancerIngress[] {
  const { spec = {}, status } = service;
  if (!isExposed(service)) return [];
  const balancer = spec.type === "LoadBalancer" ? (status?.loadBalancer?.ingress ?? []) : [];
  return [...balancer, ...(spec.externalIPs ?? []).map((ip) => ({ ip, external: true as const }))];
}

export async function gatherNamespaces(client: KubeClient): Promise<Fact<ReadonlyMap<string, NamespaceFacts>>> {
  return await readFact({ verb: "list", resource: "namespaces" }, async () => {
    const { items } = await client.list<ApiObject>(corePath("namespaces"), {}, { accept: METADATA_LIST });
    return new Map(items.map((namespace) => [namespace.metadata?.name ?? "", namespaceFacts(namespace)]));
  });
}

interface RawIssuer {
  readonly spec?: {
    readonly acme?: {
      readonly solvers?: ReadonlyArray<{
        readonly http01?: object | null;
        readonly waitInsteadOfSelfCheck?: string;
      }> | null;
    };
  };
}

/**
 * Whether an issuer has a solver for HTTP-01 that calls the name itself before it is validated. From 1.21 on, a solver
 * can wait instead (cert-manager/cert-manager#8858). A cluster without cert-manager has no issuer.
 */
export async function gatherSelfChecks(client: KubeClient): Promise<Fact<boolean>> {
  for (const resource of ["clusterissuers", "issuers"]) {
    const path = resourcePath({ group: "cert-manager.io", version: "v1", resource });
    const list = async () => (await client.list<RawIssuer>(path)).items.some(checksItself);
    const found = await readFact({ verb: "list", resource: `${resource}.cert-manager.io` }, list, { value: false });
    if (!found.known || found.value) return found;
  }
  return known(false);
}

function checksItself({ spec }: RawIssuer): boolean {
  const solvers = spec?.acme?.solvers ?? [];
  return solvers.some(({ http01, waitInsteadOfSelfCheck }) => Boolean(http01) && waitInsteadOfSelfCheck === undefined);
}

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
