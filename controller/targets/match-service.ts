import type { Reason } from "#hostmap/types.ts";
import type { RoutingHints } from "../sources/types.ts";
import { type AddressTable, allAddressesOf, canonicalAddress, keyOf, oldestFirst } from "./address-table.ts";
import { MAY_BE_A_NODE } from "./node-address.ts";
import { literalsOf, portOf, type ServiceView } from "./service-view.ts";

/**
 * The ports of an object whose kind has none, such as an Ingress; Traefik's Gateways are served there too, whatever
 * their listeners say.
 */
export const HTTP_PORTS: readonly number[] = [80, 443];

/** What tells Services apart that share an address, beyond their ports. */
export interface Precedence {
  /** Whether the Service cannot serve the class of the object. */
  readonly isOfAnotherClass: (view: ServiceView) => boolean;
  /** Whether it is the target of the object already. */
  readonly isIncumbent: (view: ServiceView) => boolean;
  /** Whether objects with its addresses have it as their target. */
  readonly isInUse: (view: ServiceView) => boolean;
}

/** Codes of the reasons that say that the addresses of an object lead to no Service. */
export const UNKNOWN_ADDRESS: ReadonlySet<string> = new Set(["no-service", "no-address", "unknown-hostname"]);

/**
 * Returns the Service that the routing hints point to, or the reason why there is none. Anybody can add a Service to
 * a shared address. Of several that have the address, only those with a port of the object that may serve its class
 * count. The one that served the object before stays; then comes one that serves other objects, then the oldest.
 * What a Service says of itself does not count here.
 */
export function matchService(hints: RoutingHints, table: AddressTable, precedence: Precedence): ServiceView | Reason {
  const { service } = hints;
  if (service !== undefined) {
    const view = table.get(`${service.namespace}/${service.name}`);
    if (view?.exposed) return whetherShortCircuited(view, allAddressesOf(view));
    const text = `the Service ${service.namespace}/${service.name} is not of type LoadBalancer and has no externalIPs`;
    return { code: "no-service", text };
  }
  const ips = literalsOf(hints.addresses);
  const addresses = (ips.length > 0 ? ips : hints.addresses).map(canonicalAddress);
  const found = [...new Set(addresses.flatMap((address) => table.at(address)))];
  if (found.length === 0) return withoutService(addresses, ips.length > 0);
  // A Service for TCP and one for UDP (HTTP/3) may share an address.
  const [first, ...others] = inOrder(found, hints, precedence);
  if (first === undefined) return withoutPort(found, hints);
  const sharesAll = (address: string) => [first, ...others].every((view) => allAddressesOf(view).includes(address));
  if (addresses.some(sharesAll)) return whetherShortCircuited(first, addresses);
  const names = [first, ...others].map(keyOf).sort();
  const several = `several Services (${names.join(", ")})`;
  const text = `${addresses.join(", ")} are those of ${several}; configure the target by its class`;
  return { code: "several-services", text };
}

/** Whether it has a port of HTTP or HTTPS. */
export function servesHttp(view: ServiceView): boolean {
  return HTTP_PORTS.some((port) => portOf(view, port) !== undefined);
}

/** The Services that may serve the object, the one that does first. */
function inOrder(services: readonly ServiceView[], hints: RoutingHints, precedence: Precedence): ServiceView[] {
  const wanted = hints.ports ?? HTTP_PORTS;
  // Ports that are not known hide no Service: the reason is reported.
  const hasPort = (view: ServiceView, list: readonly number[]) =>
    "code" in view.ports || list.some((port) => portOf(view, port) !== undefined);
  const withPort = services.filter((view) => hasPort(view, wanted) || hasPort(view, HTTP_PORTS));
  const ofClass = withPort.filter((view) => !precedence.isOfAnotherClass(view));
  const rank = (view: ServiceView) => {
    if (precedence.isIncumbent(view)) return 0;
    if (!hasPort(view, wanted)) return 3;
    return precedence.isInUse(view) ? 1 : 2;
  };
  return (ofClass.length > 0 ? ofClass : withPort).sort((a, b) => rank(a) - rank(b) || oldestFirst(a, b));
}

/**
 * kube-proxy short-circuits IP addresses, unless their `ipMode` is `Proxy`. Otherwise there is no hairpin, so
 * nothing to map, unless the Service's admin says so: the network may ignore `ipMode`, or the load balancer may not
 * take connections that come back to their node. `addresses` are those of the object. A host name leads to the
 * addresses of its load balancer.
 */
export function whetherShortCircuited(view: ServiceView, addresses: readonly string[]): ServiceView | Reason {
  if (view.map === "always") return view;
  const named = literalsOf(addresses).length > 0 ? addresses : allAddressesOf(view);
  if (named.some((address) => view.addresses.includes(address))) return view;
  if (named.some((address) => view.proxied.includes(address))) {
    const text = `the Service ${keyOf(view)} has ipMode Proxy: pods reach its load balancer, no mapping is needed`;
    return { code: "ip-mode-proxy", text };
  }
  if (view.hostnames.length > 0) {
    const hosts = view.hostnames.join(", ");
    const text = `its load balancer has the host name ${hosts}, which is not short-circuited: pods reach it`;
    return { code: "load-balancer-hostname", text };
  }
  return { code: "no-address", text: `the load balancer of the Service ${keyOf(view)} has no address yet` };
}

function withoutService(addresses: readonly string[], areIps: boolean): Reason {
  const list = addresses.join(", ");
  if (addresses.length === 0) return { code: "no-address", text: "its status has no load balancer address yet" };
  if (areIps) {
    return { code: "no-service", text: `no Service has the address ${list} that its status has; ${MAY_BE_A_NODE}` };
  }
  return { code: "unknown-hostname", text: `no Service has the host name ${list} that its status has` };
}

function withoutPort(services: readonly ServiceView[], { ports = HTTP_PORTS }: RoutingHints): Reason {
  const names = services.slice(0, 3).map(keyOf).sort().join(", ");
  const more = services.length > 3 ? ` and ${services.length - 3} more` : "";
  const text = `${names}${more}: no Service with its address has one of the TCP ports ${ports.slice(0, 10).join(", ")}`;
  return { code: "service-without-port", text };
}
