import type { Reason } from "#hostmap/types.ts";
import { listSome } from "#lib/errors/printable.ts";
import type { RoutingHints } from "../sources/types.ts";
import { type AddressTable, keyOf } from "./address-table.ts";
import { softwareNamed } from "./known-software.ts";
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
  const exposed = labelled.filter((view) => view.exposed);
  const [first] = exposed;
  const isOnly = exposed.length === 1 && labelled.every(({ namespace }) => namespace === first?.namespace);
  const chosen = isOnly ? first : exposed.find(isIncumbent);
  if (chosen !== undefined) return isReached(chosen, hints) ? chosen : undefined;
  return exposed.length === 0 ? undefined : severalLabelled(labelled, named);
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
