import type { Reason } from "#hostmap/types.ts";
import { listSome } from "#lib/errors/printable.ts";
import { KNOWN_SOFTWARE, softwareNamed, softwareOfInstallation } from "../sources/known-software.ts";
import type { RoutingHints } from "../sources/types.ts";
import {
  allAddressesOf,
  canonicalAddress,
  canonicalIp,
  firstOf,
  HTTP_PORTS,
  hasFamilyOf,
  hasPort,
  ipsOf,
  isAssigned,
  isOfClasses,
  keyOf,
  literalsOf,
  nameOf,
  PROXY_NAME_LABEL,
  preferred,
  type ServiceView,
} from "./service-view.ts";
import type { TargetTable } from "./target-table.ts";

/** The targets that names of the object's namespace have now. What others have decides nothing. */
export interface Holding {
  /** The target of the name itself. */
  readonly held: string | undefined;
  /** Whether any of its names has a target. */
  readonly isOfNamespace?: (target: string) => boolean;
}

/** Maximum number of Services in a reason. A tenant can add many Services, and each one would change the text. */
const MAX_LISTED = 3;
/** Hint in a reason about an address that no Service has, if Nodes are not read. */
export const MAY_BE_A_NODE = "it may be a node's: see `switchback doctor`";

/**
 * Returns the Service that has an address of the object, or the reason why none serves it. Anybody can add a Service to
 * a shared address. If several Services have the address, only those with a port of the object that may serve its
 * class count. The one that the name has (`current`) wins, unless kube-proxy leaves its addresses alone and a load
 * balancer gave one of them to another Service. Then comes one to which a load balancer gave the address, then the
 * oldest. Annotations of the Services do not count here.
 *
 * The owner of a Service chooses the host name of its load balancer by an annotation of the provider, such as
 * `load-balancer.hetzner.cloud/hostname` (hetznercloud/hcloud-cloud-controller-manager,
 * internal/annotation/load_balancer.go, `LBHostname`). The age of the Service does not say who had the name first. So a
 * host name of several namespaces leads to none of their Services, unless the name has one already.
 */
export function serviceAt(hints: RoutingHints, current: string | undefined, table: TargetTable): ServiceView | Reason {
  const { service, ports: wanted = HTTP_PORTS } = hints;
  if (service !== undefined) return namedService(keyOf(service), table);
  const ips = literalsOf(hints.addresses);
  const addresses = (ips.length > 0 ? ips : hints.addresses).map(canonicalAddress);
  const there = [...new Set(addresses.flatMap((address) => table.at(address)))];
  if (there.length === 0) return withoutService(addresses);
  // Two Services may share an address: one for TCP, and one for UDP (HTTP/3).
  const either = [...new Set([...wanted, ...HTTP_PORTS])];
  const withPort = there.filter((view) => hasPort(view, either));
  const candidates = preferred(withPort, (view) => !isOfClasses(view));
  const held = candidates.find((view) => nameOf(view) === current);
  if (held !== undefined) {
    const answer = whetherShortCircuited(held, addresses);
    if (!isReason(answer) || !candidates.some((view) => view !== held && isAssigned(view, addresses))) return answer;
  }
  const able = preferred(candidates, (view) => hasPort(view, wanted));
  const first = firstOf(able, addresses);
  if (first === undefined) return withoutAnyPort(there, wanted);
  const isOpen = ips.length === 0 && candidates.some(({ namespace }) => namespace !== first.namespace);
  // If the load balancer of one of them needs no mapping, the others do not change that.
  const without = isOpen ? candidates.map((view) => whetherShortCircuited(view, addresses)).find(isReason) : undefined;
  // A later Service at another address of the object must not displace the Service that serves it.
  const sharesAll = (address: string) => candidates.every((view) => allAddressesOf(view).includes(address));
  if (!isOpen && addresses.some(sharesAll)) return whetherShortCircuited(first, addresses);
  return without ?? several(candidates, `have its addresses ${addresses.join(", ")}`);
}

export function isReason(answer: object): answer is Reason {
  return "code" in answer;
}

/** The Service of an object that is or names a Service. */
function namedService(key: string, table: TargetTable): ServiceView | Reason {
  const view = table.services.get(key);
  if (view?.exposed) return whetherShortCircuited(view, allAddressesOf(view));
  const why =
    view?.foreign === true
      ? `is served by another service proxy (${PROXY_NAME_LABEL})`
      : "is not of type LoadBalancer and has no externalIPs";
  return { code: "no-service", text: `the Service ${key} ${why}` };
}

/**
 * kube-proxy short-circuits IP addresses of the families of the Service, unless their `ipMode` is `Proxy`. Otherwise
 * there is no hairpin, so no mapping is needed. The Service's admin can override this (`map: always`): the network
 * may ignore `ipMode`, or the load balancer may refuse connections that return to their node. `addresses` are those
 * of the object. A host name leads to the addresses of its load balancer.
 */
export function whetherShortCircuited(view: ServiceView, addresses: readonly string[]): ServiceView | Reason {
  if (view.map === "always") return view;
  const named = literalsOf(addresses).length > 0 ? addresses : allAddressesOf(view);
  if (named.some((address) => view.addresses.includes(address))) return view;
  const leftAlone = named.find((address) => view.leftAlone.includes(address));
  if (leftAlone !== undefined && !hasFamilyOf(view.clusterIPs, leftAlone)) {
    const text =
      `the Service ${keyOf(view)} has no ClusterIP of the family of ${leftAlone}: kube-proxy leaves that address ` +
      "alone, and no mapping is needed";
    return { code: "not-short-circuited", text };
  }
  if (leftAlone !== undefined) {
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

function withoutService(addresses: readonly string[]): Reason {
  if (addresses.length === 0) return { code: "no-address", text: "its status has no load balancer address yet" };
  const text = `no Service has the address ${addresses.join(", ")} of its status; ${MAY_BE_A_NODE}`;
  return { code: "no-service", text };
}

function withoutAnyPort(services: readonly ServiceView[], wanted: readonly number[]): Reason {
  const names = services.length > MAX_LISTED ? "" : `${services.map(keyOf).sort().join(", ")}: `;
  const text = `${names}no Service with its address has one of the TCP ports ${wanted.slice(0, 10).join(", ")}`;
  return { code: "service-without-port", text };
}

function several(services: readonly ServiceView[], what: string): Reason {
  const names = listSome(services.map(keyOf).sort(), MAX_LISTED, String);
  return { code: "several-services", text: `several Services (${names}) ${what}; configure the target by its class` };
}

/**
 * Returns the Service that an object's class leads to: an exposed one with the labels of the software that the class
 * or the controller names. Tenants can copy labels. So if several Services have them, these rules decide:
 *
 *   1. the Service that the name has
 *   2. the only one that was made for the Gateway, or for all Gateways of the class
 *   3. the only one that is exposed, if Services of other namespaces got the labels later
 *   4. the only one that other names of the namespace have
 *
 * Undefined: no Service has the labels, or a configured target has that software.
 */
export function serviceOfClass(
  hints: RoutingHints,
  { held, isOfNamespace = () => false }: Holding,
  table: TargetTable,
): ServiceView | Reason | undefined {
  const named = softwareNamed(hints) ?? softwareOfInstallation(hints);
  if (named === undefined || named === "outside") return undefined;
  const labelled = [...table.services.values()].filter(({ software = "" }) => named.has(software));
  if (labelled.some((view) => view.configured !== undefined)) return undefined;
  const able = labelled.filter((view) => view.exposed && mayServe(view, hints));
  if (able.length === 0) return undefined;
  const proven = able.find((view) => nameOf(view) === held) ?? onlyOf(able.filter(isMade));
  if (proven !== undefined) return proven;
  // Each installation may have another controller, whose name ends with its namespace (cozystack/cozystack,
  // packages/extra/ingress/templates/nginx-ingress.yaml).
  const isNamed = ({ namespace }: ServiceView) => hints.controller?.endsWith(`-${namespace}`) === true;
  const installed = softwareNamed(hints) === undefined ? preferred(labelled, isNamed) : labelled;
  const chosen = onlyOf(able.filter((view) => installed.includes(view)));
  if (chosen !== undefined && !installed.some((other) => precedes(other, chosen))) return chosen;
  const known = onlyOf(able.filter((view) => isOfNamespace(nameOf(view))));
  return known ?? several(labelled, `have labels of its controller (${[...named].join(", ")}), and none its address`);
}

/**
 * A Service that was made for a Gateway serves only that Gateway (GEP-1762). Its namespace and a label say which
 * one. A Service for all Gateways of a class is in the namespace that the class names, where Envoy Gateway runs. If an
 * implementation makes one Service per Gateway, a Service that names no Gateway may belong to anybody.
 */
function mayServe(view: ServiceView, { gateway, className }: RoutingHints): boolean {
  const { namespace, gateway: madeFor, gatewayClass, software } = view;
  if (gatewayClass !== undefined) return gatewayClass === className && gateway?.classNamespace === namespace;
  const isPerGateway = KNOWN_SOFTWARE.some(({ title, servicePerGateway }) => title === software && servicePerGateway);
  if (madeFor === undefined) return gateway === undefined || !isPerGateway;
  return gateway !== undefined && madeFor === keyOf(gateway) && gateway.namespace === namespace;
}

function isMade({ gateway, gatewayClass }: ServiceView): boolean {
  return gateway !== undefined || gatewayClass !== undefined;
}

/**
 * Whether another namespace had a Service with the labels first. If `switchback.dev/map: always` says that addresses
 * and DNS do not matter, nothing else speaks against a copy. So there any other namespace counts.
 */
function precedes(other: ServiceView, { namespace, created, map }: ServiceView): boolean {
  return other.namespace !== namespace && (map === "always" || other.created < created);
}

/**
 * Whether the Service of an object's class is short-circuited and serves the object. An IP in the object's status that
 * is no address of the Service leads elsewhere. The Service's ClusterIP confirms it: ingress-nginx writes the ClusterIP
 * of a Service of type ClusterIP (internal/ingress/status/status.go, `statusAddressFromService`). If the
 * controller is one of several installations of its software, nothing else confirms it.
 *
 * With `map: always`, neither addresses nor DNS speak against a Service, so labels alone are not enough. Otherwise the
 * first tenant that copies them takes all names of a controller without a Service: MicroK8s runs ingress-nginx on
 * ports of the nodes (canonical/microk8s-core-addons, addons/ingress/ingress.yaml).
 */
export function isReached(view: ServiceView, hints: RoutingHints): boolean {
  const ips = ipsOf(hints.addresses);
  const isConfirmed = ips.length > 0 && ips.every((ip) => view.clusterIPs.map(canonicalIp).includes(ip));
  const isNamed = softwareNamed(hints) !== undefined;
  if (view.map === "always") return isConfirmed || (isNamed && isMade(view));
  return view.addresses.length > 0 && (isConfirmed || (isNamed && ips.length === 0));
}

function onlyOf(services: readonly ServiceView[]): ServiceView | undefined {
  return services.length === 1 ? services[0] : undefined;
}
