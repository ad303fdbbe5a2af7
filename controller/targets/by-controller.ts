import { isIP } from "node:net";
import type { Reason } from "#hostmap/types.ts";
import type { RoutingHints } from "../sources/types.ts";
import { type AddressTable, keyOf } from "./address-table.ts";
import { softwareNamed } from "./known-software.ts";
import type { ServiceView } from "./service-view.ts";

/**
 * Returns the Service of the controller that an object names: the only one with that software's labels whose address
 * kube-proxy short-circuits. Tenants can copy labels: of several, only the one that serves the object already is
 * taken. An IP in the object's status that no Service has leads elsewhere; only `switchback.dev/map: always` on the
 * Service says otherwise. Undefined: the object names no known controller, or no Service has its labels.
 */
export function serviceOfController(
  hints: RoutingHints,
  table: AddressTable,
  isIncumbent: (view: ServiceView) => boolean,
): ServiceView | Reason | undefined {
  const named = softwareNamed(hints);
  if (named === undefined || named === "outside") return undefined;
  const leadsElsewhere = hints.addresses.some((address) => isIP(address) !== 0);
  const candidates: ServiceView[] = [];
  for (const view of table.values()) {
    const isAlways = view.map === "always";
    const isReached = isAlways || (view.addresses.length > 0 && !leadsElsewhere);
    if (view.exposed && isReached && view.software !== undefined && named.has(view.software)) candidates.push(view);
  }
  const [only] = candidates;
  if (candidates.length <= 1) return only;
  const incumbent = candidates.find(isIncumbent);
  if (incumbent !== undefined) return incumbent;
  const names = candidates.map(keyOf).sort();
  const listed = names.slice(0, 3).join(", ");
  const more = names.length > 3 ? ` and ${names.length - 3} more` : "";
  const text =
    `its status has no address, and several Services have labels of its controller (${[...named].join(", ")}): ` +
    `${listed}${more}; configure the target by its class`;
  return { code: "several-services", text };
}
