import type { Reason } from "#hostmap/types.ts";
import { listSome } from "#lib/errors/printable.ts";
import type { RoutingHints } from "../sources/types.ts";
import { type AddressTable, allAddressesOf, canonicalAddress, keyOf, oldestOf } from "./address-table.ts";
import { MAY_BE_A_NODE } from "./node-address.ts";
import {
  HTTP_PORTS,
  hasFamilyOf,
  literalsOf,
  mayHavePort,
  PROXY_NAME_LABEL,
  type ServiceView,
} from "./service-view.ts";

/** Maximum number of Services in a reason. */
const MAX_LISTED = 3;

/** What is known about Services beyond what they say themselves. */
export interface KnownServices {
  /** Whether the Service is already the target of the object. */
  readonly isHeld: (view: ServiceView) => boolean;
  /** Whether statuses of objects of the same class lead to the Service. */
  readonly isServing: (view: ServiceView) => boolean;
  /** Whether names of objects with the same addresses have the Service. */
  readonly isInUse: (view: ServiceView) => boolean;
  /** Whether the Service is the upstream of a configured target. */
  readonly isConfigured: (view: ServiceView) => boolean;
  /** Whether its configured target lists classes, other than that of the object. */
  readonly isOfAnotherClass: (view: ServiceView) => boolean;
}

/** Codes of the reasons which mean that the addresses of an object lead to no Service. */
export const UNKNOWN_ADDRESS: ReadonlySet<string> = new Set(["no-service", "no-address"]);

/**
 * Returns the Service that the routing hints point to, or the reason why there is none. Anybody can add a Service to
 * a shared address. If several Services have the address, only those with a port of the object that may serve its
 * class count. The one that the name has wins, then one that other names at the address have, then one to which a load
 * balancer gave the address, then the oldest. Annotations of the Services do not count here.
 *
 * The owner of a Service chooses the host name of its load balancer by an annotation of the provider, such as
 * `load-balancer.hetzner.cloud/hostname` (hetznercloud/hcloud-cloud-controller-manager,
 * internal/annotation/load_balancer.go, `LBHostname`). The age of the Service does not say who had the name first. So a
 * host name of several namespaces leads to none of their Services, unless names at it have one already.
 */
export function matchService(hints: RoutingHints, table: AddressTable, known: KnownServices): ServiceView | Reason {
  const { service } = hints;
  if (service !== undefined) return namedService(keyOf(service), table);
  const ips = literalsOf(hints.addresses);
  const addresses = (ips.length > 0 ? ips : hints.addresses).map(canonicalAddress);
  const there = [...new Set(addresses.flatMap((address) => table.at(address)))];
  if (there.length === 0) return withoutService(addresses);
  // Two Services may share an address: one for TCP, and one for UDP (HTTP/3).
  const { ports: wanted = HTTP_PORTS } = hints;
  const either = [...new Set([...wanted, ...HTTP_PORTS])];
  const withPort = there.filter((view) => mayHavePort(view, either));
  const ofClass = withPort.filter((view) => !known.isOfAnotherClass(view));
  const candidates = ofClass.length > 0 ? ofClass : withPort;
  const first = firstOf(candidates, { wanted, addresses, ...known });
  if (first === undefined) return withoutAnyPort(there, wanted);
  if (known.isHeld(first)) return whetherShortCircuited(first, addresses);
  const sharesAll = (address: string) => candidates.every((view) => allAddressesOf(view).includes(address));
  const isOpen = ips.length === 0 && !known.isInUse(first) && isOfSeveral(candidates);
  // If the load balancer of one of them needs no mapping, the others do not change that.
  const without = isOpen ? candidates.map((view) => whetherShortCircuited(view, addresses)).find(isReason) : undefined;
  // A later Service at another address of the object must not displace the Service that serves it.
  if (!isOpen && addresses.some(sharesAll)) return whetherShortCircuited(first, addresses);
  return without ?? severalAt(candidates, addresses);
}

/** The Service of an object that is or names a Service. */
function namedService(key: string, table: AddressTable): ServiceView | Reason {
  const view = table.get(key);
  if (view?.exposed) return whetherShortCircuited(view, allAddressesOf(view));
  const why =
    view?.foreign === true
      ? `is served by another service proxy (${PROXY_NAME_LABEL})`
      : "is not of type LoadBalancer and has no externalIPs";
  return { code: "no-service", text: `the Service ${key} ${why}` };
}

/** Whether the Services are of several namespaces. */
function isOfSeveral([first, ...others]: readonly ServiceView[]): boolean {
  return others.some(({ namespace }) => namespace !== first?.namespace);
}

function severalAt(services: readonly ServiceView[], addresses: readonly string[]): Reason {
  const several = `several Services (${listSome(services.map(keyOf).sort(), MAX_LISTED, String)})`;
  const text = `${several} have its addresses ${addresses.join(", ")}; configure the target by its class`;
  return { code: "several-services", text };
}

function isReason(answer: ServiceView | Reason): answer is Reason {
  return "code" in answer;
}

interface Wanted extends KnownServices {
  /** The ports of the object. */
  readonly wanted: readonly number[];
  readonly addresses: readonly string[];
}

/** Chooses the Service that serves the object. */
function firstOf(
  services: readonly ServiceView[],
  { wanted, addresses, isHeld, isInUse }: Wanted,
): ServiceView | undefined {
  const rank = (view: ServiceView) => {
    if (isHeld(view)) return 0;
    if (!mayHavePort(view, wanted)) return 3;
    return isInUse(view) ? 1 : 2;
  };
  const byRank = Map.groupBy(services, rank);
  const best = byRank.get(0) ?? byRank.get(1) ?? byRank.get(2) ?? byRank.get(3) ?? [];
  // Anybody who may write `externalIPs` adds an address to an old Service.
  const assigned = best.filter((view) => addresses.some((address) => view.assigned.includes(address)));
  return oldestOf(assigned.length > 0 ? assigned : best);
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
    return { code: "ip-family-not-served", text };
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

/** The list is limited, because a tenant can add many Services, and each one would change the text. */
function withoutAnyPort(services: readonly ServiceView[], wanted: readonly number[]): Reason {
  const names = services.length > MAX_LISTED ? "" : `${services.map(keyOf).sort().join(", ")}: `;
  const text = `${names}no Service with its address has one of the TCP ports ${wanted.slice(0, 10).join(", ")}`;
  return { code: "service-without-port", text };
}
