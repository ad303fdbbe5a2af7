import { isIP } from "node:net";
import { type IngressSoftware, softwareOf } from "#controller/targets/known-software.ts";
import { canonicalIp, hasFamilyOf, isForeign } from "#controller/targets/service-view.ts";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import { type ClusterFacts, objectKey, type ServiceFacts } from "./facts.ts";
import { answered, dialOf, type ProxyProtocolSupport, proxyProtocolSupportOf } from "./probe/proxy-protocol-support.ts";
import type { DialResult } from "./probe/result.ts";
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

/** What the probe saw of a port. Undefined: it did not try that. */
export interface ProbedPort {
  readonly port: number;
  /** From the dials to the ClusterIP. */
  readonly support: ProxyProtocolSupport;
  /** Without a header, at the load balancer's own address. */
  readonly direct: DialResult | undefined;
  /** The same with v1. */
  readonly directWithHeader: DialResult | undefined;
  /** At the front Service, through a proxy. On this route the ingress controller sees the proxies' addresses. */
  readonly front: DialResult | undefined;
}

/** The ports that the probe tried; empty without a probe. */
export function probedPorts({ service }: LoadBalancer, { probe }: Pick<ClusterFacts, "probe">): ProbedPort[] {
  if (!probe?.known) return [];
  return service.ports.flatMap(({ port }) => {
    const portRef = { service: objectKey(service), servicePort: port };
    const support = proxyProtocolSupportOf(probe.value, portRef);
    if (support === undefined) return [];
    const at = (via: "balancer" | "front", header: "none" | "v1") => dialOf(probe.value, portRef, via, header);
    return [
      {
        port,
        support,
        direct: at("balancer", "none"),
        directWithHeader: at("balancer", "v1"),
        front: at("front", "none"),
      },
    ];
  });
}

/** Whether the probe pod got no connection in time on any port of the load balancer, as if something drops packets. */
export function isDropped(ports: readonly ProbedPort[]): boolean {
  const dials = ports.flatMap(({ direct }) => direct ?? []);
  return dials.length > 0 && dials.every(({ outcome }) => outcome.kind === "timeout");
}

/**
 * Whether the ingress controller demands a header from a list of addresses and refuses one from all others, as
 * HAProxy's `expect-proxy layer4 if { src -f LIST }` does (haproxytech/kubernetes-ingress, pkg/haproxy/rules). The
 * list has the nodes, not the pods: kube-proxy masquerades pods that call an external address (pkg/proxy/iptables,
 * `KUBE-EXT`). To proxies that are not in the list, such a port looks as if the PROXY protocol were off.
 */
export function dependsOnAddress({ support, direct, directWithHeader }: ProbedPort): boolean {
  const isRefused = direct !== undefined && !answered(direct);
  return support.kind === "refuses" && isRefused && directWithHeader !== undefined && answered(directWithHeader);
}

/** What the probe pod saw of these ports. Ports with the same outcomes share a text. */
export function describePorts(ports: readonly ProbedPort[]): string {
  const groups = Map.groupBy(ports, ({ support, direct }) => {
    return support.detail + (direct === undefined ? "" : `; at its load balancer's address: ${direct.outcome.detail}`);
  });
  return [...groups]
    .map(([text, same]) => `from a pod, port ${same.map(({ port }) => port).join(" and ")}: ${text}`)
    .join("; ");
}

/** Its names, in lower case, without wildcards. */
function namesOf(service: ServiceFacts, { names }: ClusterFacts): string[] {
  const own = names.known ? names.value.names.filter((each) => each.service === objectKey(service)) : [];
  const all = own.map(({ name }) => name.toLowerCase()).filter((name) => !name.startsWith("*."));
  return [...new Set(all)].sort();
}
