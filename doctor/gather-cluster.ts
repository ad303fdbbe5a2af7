import { isExposed, literalIPs } from "#controller/targets/service-view.ts";
import { ifFound } from "#lib/errors/errors.ts";
import { METADATA_LIST } from "#lib/kube/accept.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { listProjected } from "#lib/kube/list.ts";
import { corePath, resourcePath } from "#lib/kube/paths.ts";
import type { ApiObject, ObjectMeta } from "#lib/kube/types.ts";
import { type NamespaceFacts, namespaceFacts } from "#lib/workloads/namespaces.ts";
import { type Fact, readFact } from "./fact.ts";
import type { LoadBalancerIngress, RouteFacts, ServiceFacts } from "./facts.ts";

// Facts about the cluster: Services, Ingresses, Gateways, namespaces. Keeps only the fields that the checks use.

interface RawService {
  readonly metadata: ObjectMeta;
  readonly spec?: {
    readonly type?: string;
    readonly selector?: Record<string, string> | null;
    readonly externalIPs?: readonly string[];
    readonly loadBalancerSourceRanges?: readonly string[];
    readonly clusterIP?: string;
    readonly clusterIPs?: readonly string[];
    readonly ports?: readonly {
      readonly name?: string;
      readonly port: number;
      readonly targetPort?: string | number;
      readonly appProtocol?: string;
      readonly protocol?: string;
    }[];
  };
  readonly status?: {
    readonly loadBalancer?: { readonly ingress?: readonly LoadBalancerIngress[] | null };
    readonly conditions?: readonly { readonly type?: string }[] | null;
  };
}

/** All Services of the cluster, including front Services and upstreams. */
export async function gatherServices(client: KubeClient): Promise<Fact<readonly ServiceFacts[]>> {
  return await readFact({ verb: "list", resource: "services" }, async () => {
    return await listProjected(client, corePath("services"), serviceFacts);
  });
}

function serviceFacts(service: RawService): ServiceFacts {
  const { metadata, spec = {}, status = {} } = service;
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
      .map(({ name = "", port, targetPort = port, appProtocol = "" }) => {
        return { name, port, targetPort: String(targetPort), appProtocol };
      }),
    entries: entriesOf(service),
    sourceRanges: spec.loadBalancerSourceRanges ?? [],
    conditions: (status.conditions ?? []).flatMap(({ type }) => type ?? []),
  };
}

/** The addresses that kube-proxy may short-circuit; `externalIPs` have no `ipMode`. */
function entriesOf({ metadata, spec = {}, status }: RawService): LoadBalancerIngress[] {
  if (!isExposed({ metadata, spec })) return [];
  const balancer = spec.type === "LoadBalancer" ? (status?.loadBalancer?.ingress ?? []) : [];
  return [...balancer, ...(spec.externalIPs ?? []).map((ip) => ({ ip, external: true as const }))];
}

interface RawIngress {
  readonly metadata: ObjectMeta;
  readonly spec?: {
    readonly ingressClassName?: string;
    readonly rules?: readonly { readonly host?: string }[] | null;
    readonly tls?: readonly { readonly hosts?: readonly string[] | null }[] | null;
  };
  readonly status?: { readonly loadBalancer?: { readonly ingress?: readonly LoadBalancerIngress[] | null } };
}

export async function gatherIngresses(client: KubeClient): Promise<Fact<readonly RouteFacts[]>> {
  return await readFact({ verb: "list", resource: "ingresses.networking.k8s.io" }, async () => {
    const path = resourcePath({ group: "networking.k8s.io", version: "v1", resource: "ingresses" });
    return await listProjected(client, path, ({ metadata, spec = {}, status }: RawIngress): RouteFacts => {
      const rules = (spec.rules ?? []).flatMap(({ host }) => host ?? []);
      const tls = (spec.tls ?? []).flatMap(({ hosts }) => hosts ?? []);
      return {
        kind: "Ingress",
        namespace: metadata.namespace ?? "",
        name: metadata.name ?? "",
        addresses: (status?.loadBalancer?.ingress ?? []).flatMap(({ ip, hostname }) =>
          [ip ?? [], hostname ?? []].flat(),
        ),
        hosts: [...new Set([...rules, ...tls])],
        className: spec.ingressClassName,
      };
    });
  });
}

interface RawGateway {
  readonly metadata: ObjectMeta;
  readonly spec?: {
    readonly gatewayClassName?: string;
    readonly listeners?: readonly { readonly hostname?: string }[] | null;
  };
  readonly status?: { readonly addresses?: readonly { readonly value?: string }[] | null };
}

/** Lists Gateways of `v1`, or of `v1beta1` if `v1` is not served. A cluster that serves neither has no Gateways. */
export async function gatherGateways(client: KubeClient): Promise<Fact<readonly RouteFacts[]>> {
  return await readFact({ verb: "list", resource: "gateways.gateway.networking.k8s.io" }, async () => {
    return (await listGateways(client)).map(({ metadata, spec = {}, status }): RouteFacts => {
      return {
        kind: "Gateway",
        namespace: metadata.namespace ?? "",
        name: metadata.name ?? "",
        addresses: (status?.addresses ?? []).flatMap(({ value }) => value ?? []),
        hosts: (spec.listeners ?? []).flatMap(({ hostname }) => hostname ?? []),
        className: spec.gatewayClassName,
      };
    });
  });
}

async function listGateways(client: KubeClient): Promise<RawGateway[]> {
  for (const version of ["v1", "v1beta1"]) {
    const path = resourcePath({ group: "gateway.networking.k8s.io", version, resource: "gateways" });
    const found = await ifFound(client.list<RawGateway>(path));
    if (found !== undefined) return found.items;
  }
  return [];
}

export async function gatherNamespaces(client: KubeClient): Promise<Fact<ReadonlyMap<string, NamespaceFacts>>> {
  return await readFact({ verb: "list", resource: "namespaces" }, async () => {
    const { items } = await client.list<ApiObject>(corePath("namespaces"), {}, { accept: METADATA_LIST });
    return new Map(items.map((namespace) => [namespace.metadata?.name ?? "", namespaceFacts(namespace)]));
  });
}
