import { isIP } from "node:net";
import { compareNames, foldCase } from "#hostmap/hostnames.ts";
import type { Reason } from "#hostmap/types.ts";
import type { RoutingHints } from "../sources/types.ts";
import { canonicalIp, type ServiceView } from "./service-view.ts";

/** LoadBalancer Services, indexed by address: an IP, or the host name that a load balancer has instead. */
export class AddressIndex {
  readonly #services = new Map<string, ServiceView>();
  readonly #byAddress = new Map<string, Set<string>>();

  get(key: string): ServiceView | undefined {
    return this.#services.get(key);
  }

  values(): Iterable<ServiceView> {
    return this.#services.values();
  }

  /** `view` is undefined if the Service was deleted or is no longer of type LoadBalancer. */
  set(key: string, view: ServiceView | undefined): void {
    for (const address of addressesOf(this.#services.get(key))) {
      const keys = this.#byAddress.get(address);
      keys?.delete(key);
      if (keys?.size === 0) this.#byAddress.delete(address);
    }
    if (view === undefined) {
      this.#services.delete(key);
      return;
    }
    this.#services.set(key, view);
    for (const address of addressesOf(view)) {
      const keys = this.#byAddress.get(address) ?? new Set();
      this.#byAddress.set(address, keys.add(key));
    }
  }

  at(address: string): ServiceView[] {
    const keys = this.#byAddress.get(canonicalAddress(address)) ?? [];
    return [...keys].sort().flatMap((key) => this.#services.get(key) ?? []);
  }
}

/** The addresses of a Service's status, as `canonicalAddress` writes them. */
function addressesOf(view: ServiceView | undefined): string[] {
  return view === undefined ? [] : [...view.addresses, ...view.hostnames.map(foldCase)];
}

/** Host names are the same in any case. */
function canonicalAddress(address: string): string {
  return canonicalIp(foldCase(address));
}

/**
 * The ports of an object whose kind has none, such as an Ingress; Traefik's Gateways are served there too, whatever
 * their listeners say.
 */
const HTTP_PORTS: readonly number[] = [80, 443];

/** What tells Services apart that share an address, beyond their ports. */
export interface Precedence {
  /** Whether the Service cannot serve the class of the object. */
  readonly isOfAnotherClass: (view: ServiceView) => boolean;
  /** Whether it is the target of the object already. */
  readonly isIncumbent: (view: ServiceView) => boolean;
  /** Whether it is the target of any object. */
  readonly isInUse: (view: ServiceView) => boolean;
}

/**
 * Returns the Service that the routing hints point to, or the reason why there is none. Load balancers may share an
 * address (k3s' ServiceLB uses those of the nodes, MetalLB shares on request), so that anybody can add a Service to
 * it. Of several that have the address, only those with a port of the object that may serve its class count. The
 * one that served the object before stays; then comes one that serves other objects, then the oldest.
 */
export function matchService(hints: RoutingHints, index: AddressIndex, precedence: Precedence): ServiceView | Reason {
  const { service } = hints;
  if (service !== undefined) {
    const view = index.get(`${service.namespace}/${service.name}`);
    if (view !== undefined) return whetherShortCircuited(view);
    const text = `the Service ${service.namespace}/${service.name} is not of type LoadBalancer`;
    return { code: "no-service", text };
  }
  const ips = hints.addresses.filter((address) => isIP(address) !== 0);
  const addresses = ips.length > 0 ? ips : hints.addresses;
  const at = new Set(addresses.flatMap((address) => index.at(address)));
  // A host name is not short-circuited: there are only the Services whose names are mapped in any case.
  const found = ips.length > 0 ? [...at] : [...at].filter(({ map }) => map === "always");
  if (ips.length === 0 && found.length === 0) return withoutAddress(hints);
  // A Service for TCP and one for UDP (HTTP/3) may share an address.
  const serving = preferred(found, ({ ports }) => "code" in ports || ports.length > 0);
  const [first, ...others] = inOrder(serving, hints, precedence);
  if (first === undefined) {
    return { code: "no-service", text: `no LoadBalancer Service has the address ${addresses.join(", ")}` };
  }
  const canonical = addresses.map(canonicalAddress);
  const isShared = canonical.some((address) => [first, ...others].every((view) => addressesOf(view).includes(address)));
  if (isShared) return whetherShortCircuited(first);
  const names = [first, ...others].map(({ namespace, name }) => `${namespace}/${name}`).sort();
  const several = `several Services (${names.join(", ")})`;
  const text = `${addresses.join(", ")} are those of ${several}; configure the target by its class`;
  return { code: "several-services", text };
}

/** Whether it has a port of HTTP or HTTPS. */
export function servesHttp({ ports }: ServiceView): boolean {
  return !("code" in ports) && ports.some(({ port }) => HTTP_PORTS.includes(port));
}

/** The Services that may serve the object, the one that does first. */
function inOrder(services: readonly ServiceView[], hints: RoutingHints, precedence: Precedence): ServiceView[] {
  const wanted = hints.ports ?? HTTP_PORTS;
  const hasPort = ({ ports }: ServiceView, list: readonly number[]) =>
    !("code" in ports) && ports.some(({ port }) => list.includes(port));
  const withPort = preferred(services, (view) => hasPort(view, wanted) || hasPort(view, HTTP_PORTS));
  const ofClass = preferred(withPort, (view) => !precedence.isOfAnotherClass(view));
  const rank = (view: ServiceView) => {
    if (precedence.isIncumbent(view)) return 0;
    if (!hasPort(view, wanted)) return 3;
    return precedence.isInUse(view) ? 1 : 2;
  };
  return ofClass.sort(
    (a, b) =>
      rank(a) - rank(b) ||
      compareNames(a.created, b.created) ||
      compareNames(`${a.namespace}/${a.name}`, `${b.namespace}/${b.name}`),
  );
}

/** Those for which the test holds; if there is none, all. */
function preferred<T>(list: readonly T[], test: (item: T) => boolean): T[] {
  const some = list.filter(test);
  return some.length > 0 ? some : [...list];
}

/**
 * kube-proxy short-circuits IP addresses, unless their `ipMode` is `Proxy`. Otherwise there is no hairpin, so
 * nothing to map, unless the Service's admin says so: the network may ignore `ipMode`, or the load balancer may not
 * take connections that come back to their node.
 */
function whetherShortCircuited(view: ServiceView): ServiceView | Reason {
  const { namespace, name, addresses, hostnames, proxied, map } = view;
  if (map === "always") return view;
  if (proxied) {
    const proxy = `the Service ${namespace}/${name} has ipMode Proxy`;
    const text = `${proxy}: pods reach its load balancer, no mapping is needed`;
    return { code: "ip-mode-proxy", text };
  }
  if (addresses.length > 0) return view;
  if (hostnames.length > 0) return hostnameInstead(hostnames);
  return { code: "no-address", text: `the load balancer of the Service ${namespace}/${name} has no address yet` };
}

function withoutAddress({ addresses }: RoutingHints): Reason {
  if (addresses.length > 0) return hostnameInstead(addresses);
  const text = "its status has no load balancer address yet, and no target lists its class";
  return { code: "no-address", text };
}

function hostnameInstead(hostnames: readonly string[]): Reason {
  const hosts = hostnames.join(", ");
  const text = `its load balancer has the host name ${hosts}, which is not short-circuited: pods reach it`;
  return { code: "load-balancer-hostname", text };
}
