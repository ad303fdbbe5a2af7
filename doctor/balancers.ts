import { type ClusterFacts, objectKey, type RouteFacts, type ServiceFacts } from "./facts.ts";
import { type IngressSoftware, softwareOf } from "./software.ts";
import { type Target, targetBehind, targetsOf } from "./targets.ts";

/** A Service that public names lead to: of type LoadBalancer, or of any type where a target is configured with it. */
export interface Balancer {
  readonly service: ServiceFacts;
  /** Why it is taken for one: what names it. */
  readonly foundBy: string;
  /** IP addresses and host names of its status. */
  readonly addresses: readonly string[];
  /** Hosts that lead to it, lower-cased, without wildcards. */
  readonly names: readonly string[];
  /** The target that it is the ingress controller of, or stands before. */
  readonly target: Target | undefined;
  readonly software: IngressSoftware | undefined;
}

/** Ports that say "public names": what is behind other LoadBalancer Services is no business of ours. */
const WEB_PORTS: readonly number[] = [80, 443];

/** The load balancers of ingress controllers and Gateways, in the order of their names. */
export function findBalancers(facts: ClusterFacts): Balancer[] {
  const services = facts.services.known ? facts.services.value : [];
  const targets = targetsOf(facts);
  return services
    .toSorted((one, other) => (objectKey(one) < objectKey(other) ? -1 : 1))
    .flatMap((service) => balancerOf(service, targetBehind(targets, service), facts) ?? []);
}

function balancerOf(service: ServiceFacts, target: Target | undefined, facts: ClusterFacts): Balancer | undefined {
  const addresses = service.entries.flatMap(({ ip, hostname }) => [ip ?? [], hostname ?? []].flat());
  const routes = [facts.ingresses, facts.gateways].flatMap((list) => (list.known ? list.value : []));
  const led = routes.filter((route) => route.addresses.some((address) => addresses.includes(address)));
  const software = softwareOf(service);
  const foundBy = reasonFor(service, { led, target, software });
  if (foundBy === undefined) return undefined;
  return { service, foundBy, addresses, names: namesOf(led, target, facts), target, software };
}

interface Signs {
  readonly led: readonly RouteFacts[];
  readonly target: Target | undefined;
  readonly software: IngressSoftware | undefined;
}

function reasonFor(service: ServiceFacts, { led, target, software }: Signs): string | undefined {
  const [first] = led;
  if (target !== undefined) return `it is what the target ${target.name} leads to`;
  if (service.type !== "LoadBalancer") return undefined;
  if (first !== undefined) return `the status of the ${first.kind} ${objectKey(first)} has its address`;
  if (software !== undefined) return `its labels are those of ${software.title}`;
  const web = service.ports.find(({ port }) => WEB_PORTS.includes(port));
  return web === undefined ? undefined : `it serves port ${web.port}`;
}

/** Hosts of what has its address, and the names that are mapped to its target. */
function namesOf(led: readonly RouteFacts[], target: Target | undefined, facts: ClusterFacts): string[] {
  const hosts = led.flatMap((route) => route.hosts);
  const all = [...hosts, ...mappedNames(target, facts)].map((host) => host.toLowerCase());
  return [...new Set(all)].filter((host) => !host.startsWith("*.") && host !== "").sort();
}

function mappedNames(target: Target | undefined, { install }: ClusterFacts): readonly string[] {
  const published = install.map.known ? install.map.value : undefined;
  if (target === undefined || published === undefined || "code" in published.map) return [];
  const { index, map } = published;
  const addresses = index.targets.find(({ name }) => name === target.name)?.clusterIPs ?? [];
  return map.names.filter((name) => map.addressesOf(name)?.some((address) => addresses.includes(address)));
}
