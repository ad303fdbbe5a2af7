import type { Reason } from "#hostmap/types.ts";
import { listSome } from "#lib/errors/printable.ts";
import type { RoutingHints } from "../sources/types.ts";
import { type AddressTable, keyOf } from "./address-table.ts";
import { PER_GATEWAY, softwareNamed, softwareOfInstallation } from "./known-software.ts";
import type { KnownServices } from "./match-service.ts";
import { canonicalIp, literalsOf, type ServiceView } from "./service-view.ts";

/**
 * Returns the Service that an object's class leads to: an exposed one with the labels of the software that the class
 * or the controller names. Tenants can copy labels. So if several Services have them, these rules decide:
 *
 *   1. the Service that already serves the object
 *   2. the only one that statuses of its class lead to, because tenants write no status
 *   3. the only one of its installation that is exposed, if Services of other namespaces got the labels later
 *
 * A Service that was made for the Gateway, or for all Gateways of the class, needs no further evidence. Undefined: no
 * Service has the labels, or a configured target has that software.
 */
export function serviceOfClass(
  hints: RoutingHints,
  table: AddressTable,
  { isHeld, isServing, isConfigured }: Pick<KnownServices, "isHeld" | "isServing" | "isConfigured">,
): ServiceView | Reason | undefined {
  const named = softwareNamed(hints) ?? softwareOfInstallation(hints);
  if (named === undefined || named === "outside") return undefined;
  const labelled: ServiceView[] = [];
  for (const view of table.values()) if (view.software !== undefined && named.has(view.software)) labelled.push(view);
  if (labelled.some(isConfigured)) return undefined;
  const able = labelled.filter((view) => view.exposed && mayServe(view, hints));
  if (able.length === 0) return undefined;
  const proven = able.find(isHeld) ?? onlyOf(able.filter(isServing)) ?? onlyOf(able.filter(isMade));
  if (proven !== undefined) return proven;
  const installed = ofInstallation(labelled, hints);
  const chosen = onlyOf(able.filter((view) => installed.includes(view)));
  const isFirst = chosen !== undefined && !installed.some((other) => precedes(other, chosen));
  return isFirst ? chosen : severalLabelled(labelled, named);
}

/**
 * A Service that was made for a Gateway serves only that Gateway (GEP-1762). Its namespace and a label tell which
 * one. A Service for all Gateways of a class is in the namespace that the class names, where Envoy Gateway runs. If an
 * implementation makes one Service per Gateway, a Service that names no Gateway may belong to anybody.
 */
function mayServe(view: ServiceView, { gateway, className }: RoutingHints): boolean {
  const { namespace, gateway: madeFor, gatewayClass, software } = view;
  if (gatewayClass !== undefined) return gatewayClass === className && gateway?.classNamespace === namespace;
  const isShared = gateway === undefined || software === undefined || !PER_GATEWAY.has(software);
  if (madeFor === undefined) return isShared;
  return gateway !== undefined && madeFor === keyOf(gateway) && gateway.namespace === namespace;
}

function isMade({ gateway, gatewayClass }: ServiceView): boolean {
  return gateway !== undefined || gatewayClass !== undefined;
}

/**
 * The Services of one installation, if the class says which one: by a controller of its own that ends with the
 * namespace (cozystack/cozystack, packages/extra/ingress/templates/nginx-ingress.yaml), or by the label of its
 * release. A Service without a release may be of any installation.
 */
function ofInstallation(services: readonly ServiceView[], hints: RoutingHints): readonly ServiceView[] {
  const { instance, controller = "" } = hints;
  const inNamespace = services.filter(({ namespace }) => controller.endsWith(`-${namespace}`));
  if (inNamespace.length > 0 && softwareNamed(hints) === undefined) return inNamespace;
  if (instance === undefined || !services.some((view) => view.instance === instance)) return services;
  return services.filter((view) => view.instance === undefined || view.instance === instance);
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
 * is no address of the Service leads elsewhere, unless the Service has `switchback.dev/map: always`. The Service's
 * ClusterIP confirms it: ingress-nginx writes the ClusterIP of its own Service of type ClusterIP
 * (internal/ingress/status/status.go, `statusAddressFromService`). If the controller is one of several installations
 * of its software, nothing else confirms it.
 *
 * With `map: always`, neither addresses nor DNS speak against a Service, so labels alone are not enough. Otherwise the
 * first tenant that copies them takes all names of a controller without a Service: MicroK8s runs ingress-nginx on
 * ports of the nodes (canonical/microk8s-core-addons, addons/ingress/ingress.yaml). A status of the class, which no
 * tenant writes, has to lead to the Service.
 */
export function isReached(
  view: ServiceView,
  hints: RoutingHints,
  { isServing }: Pick<KnownServices, "isServing">,
): boolean {
  const ips = literalsOf(hints.addresses).map(canonicalIp);
  const isConfirmed = ips.length > 0 && ips.every((ip) => view.clusterIPs.map(canonicalIp).includes(ip));
  const isNamed = softwareNamed(hints) !== undefined;
  if (view.map === "always") return isConfirmed || (isNamed && (isServing(view) || isMade(view)));
  return view.addresses.length > 0 && (isConfirmed || (isNamed && ips.length === 0));
}

function onlyOf(services: readonly ServiceView[]): ServiceView | undefined {
  return services.length === 1 ? services[0] : undefined;
}

function severalLabelled(services: readonly ServiceView[], named: ReadonlySet<string>): Reason {
  const names = listSome(services.map(keyOf).sort(), 3, String);
  const text =
    `no Service has an address of its status, and several have labels of its controller (${[...named].join(", ")}): ` +
    `${names}; configure the target by its class`;
  return { code: "several-services", text };
}
