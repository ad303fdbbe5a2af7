import { isExposed, literalIPs } from "#controller/targets/service-view.ts";
import { METADATA_LIST } from "#lib/kube/accept.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath, resourcePath } from "#lib/kube/paths.ts";
import type { ApiObject, ObjectMeta } from "#lib/kube/types.ts";
import { type NamespaceFacts, namespaceFacts } from "#lib/workloads/namespaces.ts";
import { type Fact, known, readFact } from "./fact.ts";
import type { LoadBalancerIngress, ServiceFacts } from "./facts.ts";

// Facts about the cluster: Services, namespaces, cert-manager's issuers. Keeps only the fields that the checks use.

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
    return (await client.list<RawService>(corePath("services"))).items.map(serviceFacts);
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
      .map(({ name = "", port, appProtocol = "" }) => ({ name, port, appProtocol })),
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
