import type { Reason } from "#hostmap/types.ts";
import { listSome } from "#lib/errors/printable.ts";
import type { RoutingHints } from "../sources/types.ts";
import { type AddressTable, keyOf } from "./address-table.ts";
import { PER_GATEWAY, softwareNamed } from "./known-software.ts";
import { literalsOf, type ServiceView } from "./service-view.ts";

/** Facts about Services beyond their labels. */
interface Known {
  /** Whether the Service is already the target of the object. */
  readonly isIncumbent: (view: ServiceView) => boolean;
  /** Whether the Service is the upstream of a configured target. */
  readonly isConfigured: (view: ServiceView) => boolean;
}

/**
 * Returns the Service of the controller that an object names: the only exposed one with that software's labels.
 * Tenants can copy labels. So if Services of several namespaces have them, only the one that already serves the
 * object is taken. If the object's status has an IP that no Service has, the object leads elsewhere, unless the
 * Service has `switchback.dev/map: always`. Undefined: the object names no known controller, its Service is not
 * short-circuited, or a configured target has that software.
 */
export function serviceOfController(
  hints: RoutingHints,
  table: AddressTable,
  { isIncumbent, isConfigured }: Known,
): ServiceView | Reason | undefined {
  const named = softwareNamed(hints);
  if (named === undefined || named === "outside") return undefined;
  const labelled: ServiceView[] = [];
  for (const view of table.values()) if (view.software !== undefined && named.has(view.software)) labelled.push(view);
  if (labelled.some(isConfigured)) return undefined;
  const exposed = labelled.filter((view) => view.exposed && mayServe(view, hints));
  const [first] = exposed;
  // A Service that was made for this Gateway has a known owner. So the others may be of other installations.
  const isOfOne = first?.gateway !== undefined || labelled.every(({ namespace }) => namespace === first?.namespace);
  const isOnly = exposed.length === 1 && isOfOne;
  const chosen = isOnly ? first : exposed.find(isIncumbent);
  if (chosen !== undefined) return isReached(chosen, hints) ? chosen : undefined;
  return exposed.length === 0 ? undefined : severalLabelled(labelled, named);
}

/**
 * A Service that was made for a Gateway serves only that Gateway (GEP-1762). Its namespace and a label tell which
 * one. If an implementation makes one Service per Gateway, a Service that names no Gateway may belong to anybody.
 */
function mayServe({ namespace, gateway: madeFor, software }: ServiceView, { gateway }: RoutingHints): boolean {
  const isShared = gateway === undefined || software === undefined || !PER_GATEWAY.has(software);
  if (madeFor === undefined) return isShared;
  return gateway !== undefined && madeFor === keyOf(gateway) && gateway.namespace === namespace;
}

function isReached(view: ServiceView, { addresses }: RoutingHints): boolean {
  const leadsElsewhere = literalsOf(addresses).length > 0;
  return view.map === "always" || (view.addresses.length > 0 && !leadsElsewhere);
}

function severalLabelled(services: readonly ServiceView[], named: ReadonlySet<string>): Reason {
  const names = listSome(services.map(keyOf).sort(), 3, String);
  const text =
    `no Service has an address of its status, and several have labels of its controller (${[...named].join(", ")}): ` +
    `${names}; configure the target by its class`;
  return { code: "several-services", text };
}
