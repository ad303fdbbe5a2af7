import { isIP } from "node:net";
import { type IngressSoftware, softwareOf } from "#controller/sources/known-software.ts";
import { canonicalIp, hasFamilyOf, isForeign } from "#controller/targets/service-view.ts";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import { type ClusterFacts, objectKey, type ServiceFacts } from "./facts.ts";
import { type ProbedPort, probedPorts } from "./probe/probed-ports.ts";
import { targetBehind, targetsOf } from "./targets.ts";

/** A Service that public names resolve to: of type LoadBalancer, with `externalIPs`, or one that a target uses. */
export interface LoadBalancer {
  readonly service: ServiceFacts;
  /** IP addresses and hostnames in its status, and its `externalIPs`. */
  readonly addresses: readonly string[];
  /** Hosts that it serves, in lower case, without wildcards. */
  readonly names: readonly string[];
  /** The target that has this Service as its upstream. */
  readonly target: PublishedTarget | undefined;
  readonly software: IngressSoftware | undefined;
}

/** Ports that suggest public names. LoadBalancer Services without one of them are not examined. */
const WEB_PORTS: readonly number[] = [80, 443];

/** The load balancers of ingress controllers and Gateways, sorted by namespace and name. */
export function findLoadBalancers(facts: ClusterFacts): LoadBalancer[] {
  const services = facts.services.known ? facts.services.value : [];
  const targets = targetsOf(facts);
  return services
    .toSorted((one, other) => (objectKey(one) < objectKey(other) ? -1 : 1))
    .flatMap((service) => loadBalancerOf(service, targetBehind(targets, service), facts) ?? []);
}

function loadBalancerOf(
  service: ServiceFacts,
  target: PublishedTarget | undefined,
  facts: ClusterFacts,
): LoadBalancer | undefined {
  // The relay and PROXY headers are for TCP alone. A Service with this label belongs to another service proxy:
  // kube-proxy does not list it (kubernetes, cmd/kube-proxy/app/server.go, `noProxyName`).
  const isOurs = service.ports.length > 0 && !("service.kubernetes.io/service-proxy-name" in service.labels);
  if (target === undefined && !isOurs) return undefined;
  // DNS answers with normalized addresses.
  const addresses = service.entries.flatMap(({ ip, hostname }) => [ip ?? [], hostname ?? []].flat()).map(canonicalIp);
  const names = namesOf(service, facts);
  const software = softwareOf(service);
  const isBalancer =
    service.entries.length > 0 || (service.type === "LoadBalancer" && !isForeign({ metadata: service }));
  const isWeb = service.ports.some(({ port }) => WEB_PORTS.includes(port));
  const isFound = target !== undefined || (isBalancer && (names.length > 0 || software !== undefined || isWeb));
  return isFound ? { service, addresses, names, target, software } : undefined;
}

/**
 * The addresses of a Service that kube-proxy short-circuits: IPs of the families of its ClusterIPs, without
 * `ipMode: Proxy` (KEP-1860).
 */
export function shortCircuited({ service }: LoadBalancer): string[] {
  return service.entries.flatMap(({ ip, ipMode }) =>
    ip === undefined || ipMode === "Proxy" || !hasFamilyOf(service.clusterIPs, ip) ? [] : [canonicalIp(ip)],
  );
}

/** Whether all IPs in its status have `ipMode: Proxy`, so that kube-proxy does not short-circuit them. */
export function isProxied({ service }: LoadBalancer): boolean {
  const withIp = service.entries.filter(({ ip }) => ip !== undefined);
  return withIp.length > 0 && withIp.every(({ ipMode }) => ipMode === "Proxy");
}

/**
 * Its `loadBalancerSourceRanges`, as far as they may leave pods out of an address that kube-proxy short-circuits.
 * kube-proxy checks a pod's address before it short-circuits, and drops what is in no range (kubernetes,
 * pkg/proxy/iptables/proxier.go, `usesFWChain`, and issue 109575). It keeps the families apart
 * (pkg/proxy/serviceport.go, `newBaseServiceInfo`), and does not check `externalIPs`. Cilium's replacement checks no
 * pods.
 */
export function filteredBy({ service }: LoadBalancer): readonly string[] {
  const families = service.entries.flatMap(({ ip = "", ipMode, external }) =>
    ipMode === "Proxy" || external ? [] : isIP(ip),
  );
  const ranges = service.sourceRanges.map((range) => range.trim());
  const byFamily = Map.groupBy(ranges, (range) => (range.includes(":") ? 6 : 4));
  return [...byFamily].flatMap(([family, own]) =>
    families.includes(family) && !own.some((range) => range.endsWith("/0")) ? own : [],
  );
}

/** The ports that the probe tried; empty without a probe. */
export function portsOf({ service }: LoadBalancer, { probe }: Pick<ClusterFacts, "probe">): ProbedPort[] {
  return probe?.known ? probedPorts(service, probe.value) : [];
}

/** Its names, in lower case, without wildcards. */
function namesOf(service: ServiceFacts, { names }: ClusterFacts): string[] {
  const own = names.known ? names.value.names.filter((each) => each.service === objectKey(service)) : [];
  const all = own.map(({ name }) => name.toLowerCase()).filter((name) => !name.startsWith("*."));
  return [...new Set(all)].sort();
}
