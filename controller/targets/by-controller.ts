import type { Reason } from "#hostmap/types.ts";
import { listSome } from "#lib/errors/printable.ts";
import type { RoutingHints } from "../sources/types.ts";
import { type AddressTable, keyOf } from "./address-table.ts";
import { PER_GATEWAY, softwareNamed } from "./known-software.ts";
import { literalsOf, type ServiceView } from "./service-view.ts";

/** What is known of Services beyond their labels. */
interface Known {
  /** Whether it is the target of the object already. */
  readonly isIncumbent: (view: ServiceView) => boolean;
  /** Whether a configured target has it as its upstream. */
  readonly isConfigured: (view: ServiceView) => boolean;
}

/**
 * Returns the Service of the controller that an object names: the only exposed one with that software's labels. Tenants
 * can copy labels: if Services of several namespaces have them, only the one that serves the object already is taken.
 * An IP in the object's status that no Service has leads elsewhere; only `switchback.dev/map: always` on the Service
 * says otherwise. Undefined: the object names no known controller, its Service is not short-circuited, or a configured
 * target is of that software.
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
  // Of one that was made for this Gateway it is known whose it is: others need not be of the same installation.
  const isOfOne = first?.gateway !== undefined || labelled.every(({ namespace }) => namespace === first?.namespace);
  const isOnly = exposed.length === 1 && isOfOne;
  const chosen = isOnly ? first : exposed.find(isIncumbent);
  if (chosen !== undefined) return isReached(chosen, hints) ? chosen : undefined;
  return exposed.length === 0 ? undefined : severalLabelled(labelled, named);
}

/**
 * A Service that was made for a Gateway serves that one alone (GEP-1762): its namespace and a label say which. Where an
 * implementation makes one for each, a Service that names no Gateway may be anybody's.
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
