import { isIP } from "node:net";
import { canonicalAddress } from "#controller/targets/address-table.ts";
import { type IngressSoftware, softwareOf } from "#controller/targets/known-software.ts";
import { canonicalIp, hasFamilyOf, literalsOf } from "#controller/targets/service-view.ts";
import { type ClusterFacts, objectKey, type RouteFacts, type ServiceFacts } from "./facts.ts";
import { answered, dialOf, type ProxyProtocolSupport, proxyProtocolSupportOf } from "./probe/proxy-protocol-support.ts";
import type { DialResult } from "./probe/result.ts";
import { type Target, targetBehind, targetsOf } from "./targets.ts";

/** A Service that public names resolve to: of type LoadBalancer, with `externalIPs`, or one that a target uses. */
export interface LoadBalancer {
  readonly service: ServiceFacts;
  /** Why it counts as a load balancer. */
  readonly foundBy: string;
  /** IP addresses and hostnames in its status, and its `externalIPs`. */
  readonly addresses: readonly string[];
  /** Hosts that it serves, in lower case, without wildcards. */
  readonly names: readonly string[];
  /** The target that has this Service as its upstream. */
  readonly target: Target | undefined;
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
  target: Target | undefined,
  facts: ClusterFacts,
): LoadBalancer | undefined {
  // The relay and PROXY headers are for TCP alone. A Service with this label belongs to another service proxy:
  // kube-proxy does not list it (kubernetes, cmd/kube-proxy/app/server.go, `noProxyName`).
  const isOurs = service.ports.length > 0 && !("service.kubernetes.io/service-proxy-name" in service.labels);
  if (target === undefined && !isOurs) return undefined;
  // DNS answers with normalized addresses.
  const addresses = service.entries.flatMap(({ ip, hostname }) => [ip ?? [], hostname ?? []].flat()).map(canonicalIp);
  const own = new Set(addresses.map(canonicalAddress));
  const matching = routesOf(facts).filter((route) =>
    route.addresses.some((address) => own.has(canonicalAddress(address))),
  );
  const software = softwareOf(service);
  const foundBy = reasonFor(service, { routes: matching, target, software });
  if (foundBy === undefined) return undefined;
  return { service, foundBy, addresses, names: namesOf(matching, target, facts), target, software };
}

function routesOf({ ingresses, gateways }: Pick<ClusterFacts, "ingresses" | "gateways">): RouteFacts[] {
  return [ingresses, gateways].flatMap((list) => (list.known ? list.value : []));
}

/** The Ingresses and Gateways that have an IP in their status, but no address that a Service has. */
export function routesWithoutService(facts: Pick<ClusterFacts, "services" | "ingresses" | "gateways">): RouteFacts[] {
  if (!facts.services.known) return [];
  const entries = facts.services.value.flatMap((service) => service.entries);
  const taken = new Set(entries.flatMap(({ ip, hostname }) => [ip ?? [], hostname ?? []].flat().map(canonicalAddress)));
  return routesOf(facts).filter(
    ({ addresses }) =>
      literalsOf(addresses).length > 0 && !addresses.some((address) => taken.has(canonicalAddress(address))),
  );
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
interface ProbedPort {
  /** The dial without a header to the load balancer's own address. */
  readonly direct: DialResult | undefined;
  /** From the dials to the ClusterIP. */
  readonly support: ProxyProtocolSupport | undefined;
}

function probedPorts({ service }: LoadBalancer, { probe }: ClusterFacts): ProbedPort[] {
  if (!probe?.known) return [];
  return service.ports.map(({ port }) => {
    const portRef = { service: objectKey(service), servicePort: port };
    return {
      direct: dialOf(probe.value, portRef, "balancer"),
      support: proxyProtocolSupportOf(probe.value, portRef),
    };
  });
}

/** Whether the probe pod got no connection in time on any port of the load balancer, as if something drops packets. */
export function isDropped(loadBalancer: LoadBalancer, facts: ClusterFacts): boolean {
  const dials = probedPorts(loadBalancer, facts).flatMap(({ direct }) => direct ?? []);
  return dials.length > 0 && dials.every(({ outcome }) => outcome.kind === "timeout");
}

/** Whether the probe saw a port that refuses headers. Discovery maps such a load balancer only on request. */
export function refusesHeaders(loadBalancer: LoadBalancer, facts: ClusterFacts): boolean {
  return probedPorts(loadBalancer, facts).some(({ support }) => support?.kind === "refuses");
}

/** With these kinds, the backend works. If pods get no answer, the route to it is broken. */
const WORKING: readonly string[] = ["accepts", "demands", "refuses"];

/**
 * Whether pods get an answer at the load balancer's own address; undefined if not tested. False if a port with a
 * working backend does not answer there.
 */
export function reachedByPods(loadBalancer: LoadBalancer, facts: ClusterFacts): boolean | undefined {
  const answers = probedPorts(loadBalancer, facts).flatMap(({ direct, support }) => {
    if (direct === undefined || support === undefined) return [];
    return answered(direct) || (WORKING.includes(support.kind) ? false : []);
  });
  return answers.includes(false) ? false : answers[0];
}

interface Matches {
  /** The routes whose status has an address of the Service. */
  readonly routes: readonly RouteFacts[];
  readonly target: Target | undefined;
  readonly software: IngressSoftware | undefined;
}

function reasonFor(service: ServiceFacts, { routes, target, software }: Matches): string | undefined {
  const [first] = routes;
  if (target !== undefined) return `target ${target.name} uses it`;
  if (service.type !== "LoadBalancer" && service.entries.length === 0) return undefined;
  if (first !== undefined) return `the status of ${first.kind} ${objectKey(first)} has its address`;
  if (software !== undefined) return `it has labels of ${software.title}`;
  const web = service.ports.find(({ port }) => WEB_PORTS.includes(port));
  return web === undefined ? undefined : `it serves port ${web.port}`;
}

/** Hosts of the routes that have its address, and names mapped to its target. */
function namesOf(routes: readonly RouteFacts[], target: Target | undefined, facts: ClusterFacts): string[] {
  const hosts = routes.flatMap((route) => route.hosts);
  const all = [...hosts, ...mappedNames(target, facts)].map((host) => host.toLowerCase());
  return [...new Set(all)].filter((host) => !host.startsWith("*.") && host !== "").sort();
}

function mappedNames(target: Target | undefined, { install }: ClusterFacts): readonly string[] {
  const published = install.map.known ? install.map.value : undefined;
  if (target === undefined || published === undefined || "code" in published.map) return [];
  const { targets, map } = published;
  const addresses = targets.find(({ name }) => name === target.name)?.clusterIPs ?? [];
  return map.names.filter((name) => map.addressesOf(name)?.some((address) => addresses.includes(address)));
}
